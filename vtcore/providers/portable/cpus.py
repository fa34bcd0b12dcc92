"""How many CPUs this process may use: its affinity, and the share that its container allows."""

from __future__ import annotations

import math
import os
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIPS = Path("/proc/self/cgroup")


def usable_cpus() -> int:
    """CPUs that this process may run on, and no more than its cgroup's quota is worth; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _quota())))


def _quota() -> float:
    """CPUs' worth of time that the cgroups of this process may use: the least of all levels."""
    try:
        memberships = MEMBERSHIPS.read_text().splitlines()
    except OSError:
        return math.inf
    shares = [math.inf]
    for line in memberships:
        _, controllers, path = line.split(":", 2)
        base = CGROUPS / "cpu" if "cpu" in controllers.split(",") else CGROUPS
        if controllers == "" or "cpu" in controllers.split(","):
            own = base / path.strip("/")
            shares += [_share(level) for level in (own, *own.parents) if level == base or base in level.parents]
    return min(shares)


def _share(level: Path) -> float:
    """What one cgroup allows: cpu.max ("quota period", version 2) or the two files of version 1."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            quota, period = " ".join((level / n).read_text().strip() for n in names).split()
        except (OSError, ValueError):
            continue
        if quota not in ("max", "-1") and int(period) > 0:
            return max(int(quota) / int(period), 0.01)
    return math.inf
