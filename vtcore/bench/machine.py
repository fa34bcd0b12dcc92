"""Where figures were taken: a speed without its machine says nothing."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vtcore.provider import Provider

PACKAGES = ("vtcore", "numpy", "llvmlite", "tokenizers")
CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
BUSY = 0.25  # load by others from which on figures are doubtful


def describe(providers: Sequence[Provider] = ()) -> dict[str, Any]:
    """The processor, what runs on it, and what the providers say of themselves."""
    return {
        "processor": processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "largest_cache": largest_cache(),
        "memory": memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: package(name) for name in PACKAGES},
        "providers": {p.name: dict(p.facts) for p in providers},
        "load": load(),
    }


def processor(cpuinfo: Path = CPUINFO) -> str:
    """The processor's name, or what kind it is where the system doesn't give it one."""
    try:
        fields = [line.split(":", 1) for line in cpuinfo.read_text().splitlines() if ":" in line]
    except OSError:
        fields = []
    names = (value.strip() for key, value in fields if key.strip() == "model name")
    return next(names, "") or platform.processor() or platform.machine()


def largest_cache(folder: Path = CACHES) -> int | None:
    """Bytes of the last level; None where the system doesn't say."""
    sizes = []
    for file in folder.glob("index*/size"):
        text = file.read_text().strip()
        if text[:-1].isdigit() and text[-1:] in "KM":
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20}[text[-1]])
    return max(sizes, default=None)


def memory() -> int | None:
    """Bytes that the machine has; None where the system doesn't say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def load() -> float | None:
    """Threads that ran or waited to, over the last minute; None where the system doesn't say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def package(name: str) -> str | None:
    """The version of an installed package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
