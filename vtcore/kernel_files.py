"""Compiled kernels on disk, whoever made them: all together have one bound, and those go first that were used longest ago.

Safe with several processes: a file is there whole or not at all, any may go at any moment, and losing one costs a compilation."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from vtcore.caches import cache_directory
from vtcore.written import keep, keep_sealed, sealed

LIMIT = 256 << 20  # bytes of all files together
BETWEEN = 32  # files that a process adds between two looks at the total
ABANDONED = 600  # seconds after which a file that was never renamed belongs to a process that is gone


class KernelFiles:
    """A directory and what is in its folders."""

    def __init__(self, directory: Path, limit: int = LIMIT) -> None:
        self.directory, self.limit, self._puts = directory, limit, 0

    def sealed(self, path: Path) -> bytes | None:
        """What was put there sealed, which counts as used now. None where there is nothing, or anything else."""
        data = sealed(path)
        if data is not None:
            used(path)
        return data

    def put(self, path: Path, data: bytes, *, seal: bool = False) -> bool:
        """Publish bytes; `seal`: with their checksum. False where there is no room on the disk, or no right to write there."""
        if self._puts % BETWEEN == 0:
            self.make_room()
        self._puts += 1
        return keep_sealed(path, data) if seal else keep(path, data)

    def entries(self) -> list[tuple[float, Path, int]]:
        """When each file was used last, itself, and its bytes; the one that was used longest ago first."""
        found = []
        for folder, _, names in os.walk(self.directory):
            for path in (Path(folder, name) for name in names if "." in name):  # and not a lock
                with suppress(OSError):  # another process took it away
                    stat = path.stat()
                    found.append((stat.st_mtime, path, stat.st_size))
        return sorted(found)

    def make_room(self) -> None:
        """Remove what is too much, and what was left half written; what another process is just writing stays."""
        entries, since = self.entries(), time.time() - ABANDONED
        total = sum(size for _, _, size in entries)
        for when, path, size in entries:
            if when < since if path.suffix == ".tmp" else total > self.limit:
                with suppress(OSError):  # of another user's the bytes stay
                    path.unlink(missing_ok=True)
                    total -= size


def used(path: Path) -> None:
    """A file counts as used now."""
    with suppress(OSError):
        os.utime(path)


def kernel_files() -> KernelFiles:
    """Those in this user's cache."""
    return _of(cache_directory() / "kernels")


@lru_cache(4)
def _of(directory: Path) -> KernelFiles:
    return KernelFiles(directory)
