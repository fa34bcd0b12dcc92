"""How much memory this process may still use: what the machine has free, or less where a control group caps it."""

from __future__ import annotations

import os
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def available_memory() -> int | None:
    """Bytes; None where the system doesn't say."""
    known = [n for n in (machine(), control_group()) if n is not None]
    return min(known) if known else None


def machine(meminfo: Path = MEMINFO) -> int | None:
    """What the kernel would give without swapping; elsewhere than on Linux, all physical memory."""
    try:
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return _physical()


def control_group(root: Path = GROUPS) -> int | None:
    """What the group's limit leaves; cached files count as free, since they give way."""
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            cap, now = (root / limit).read_text().strip(), int((root / used).read_text())
            return max(0, int(cap) - now + _cached((root / limit).parent / "memory.stat")) if cap != "max" else None
        except (OSError, ValueError):
            continue
    return None


def _cached(stat: Path) -> int:
    try:
        fields = dict(line.split() for line in stat.read_text().splitlines())
        return int(fields.get("inactive_file", 0)) + int(fields.get("active_file", 0))
    except (OSError, ValueError):
        return 0


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
