"""Which tiers there are below the pools, and how large."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vtcore.errors import ArgumentError, nearest
from vtcore.kvcache.offload.eviction import POLICIES

UNITS = {"": 1 << 30, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
DIRECTORY = 10 << 30  # bytes of a directory, where nothing else is said
MOST = 1 << 60
Size = float | str | None


@dataclass(frozen=True)
class OffloadConfig:
    """kv_offloading_size: of copies in the host's memory. kv_offloading_policy: which of them goes first, "lru" (the default) or "arc".
    kv_offloading_dir, kv_offloading_dir_size: of files, for this process and those after it. A size is a number of GiB, as vLLM's is, or a
    text such as "800MiB"."""

    kv_offloading_size: Size = None
    kv_offloading_policy: str | None = None
    kv_offloading_dir: str | Path | None = None
    kv_offloading_dir_size: Size = None

    def __post_init__(self) -> None:
        _ = self.host_bytes, self.disk_bytes  # each checks itself
        if (policy := self.kv_offloading_policy) is not None and policy not in tuple(POLICIES):
            hint = nearest(policy, POLICIES)
            raise ArgumentError(f"kv_offloading_policy is {policy!r:.80}{hint}; it must be one of {', '.join(POLICIES)}")
        if self.kv_offloading_dir is not None and (not isinstance(self.kv_offloading_dir, (str, Path)) or not str(self.kv_offloading_dir)):
            raise ArgumentError(f"kv_offloading_dir is {self.kv_offloading_dir!r:.80}; it must be the path of a directory")
        for name, needs in (("kv_offloading_policy", "kv_offloading_size"), ("kv_offloading_dir_size", "kv_offloading_dir")):
            if getattr(self, name) is not None and getattr(self, needs) is None:
                raise ArgumentError(f"{name} is {getattr(self, name)} and has no effect without {needs}: give that too")

    @property
    def host_bytes(self) -> int:
        """0: there is no such tier."""
        return _bytes("kv_offloading_size", self.kv_offloading_size)

    @property
    def disk_bytes(self) -> int:
        """Of the directory, where there is one."""
        return DIRECTORY if self.kv_offloading_dir_size is None else _bytes("kv_offloading_dir_size", self.kv_offloading_dir_size)

    @property
    def directory(self) -> Path | None:
        """None: there is no such tier."""
        return None if self.kv_offloading_dir is None else Path(self.kv_offloading_dir).expanduser()

    @property
    def some(self) -> bool:
        """Whether there is any tier."""
        return self.kv_offloading_size is not None or self.kv_offloading_dir is not None


def _bytes(name: str, size: Size) -> int:
    if size is None:
        return 0
    match = None if isinstance(size, bool) else re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)(?:i?b)?", str(size).strip().lower())
    count = 0 if match is None else int(float(match[1]) * UNITS[match[2]])
    if not 0 < count <= MOST:
        raise ArgumentError(f'{name} is {size!r:.80}; it must be a positive number of GiB, or a text such as "800MiB" or "4GiB"')
    return count
