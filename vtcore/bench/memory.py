"""The most memory that this process has held, mapped files included."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_memory(status: Path = STATUS) -> int | None:
    """Bytes; None where the system doesn't say. Of Linux's two figures, the one that doesn't begin with the parent's."""
    try:
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        return int(fields["VmHWM"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return _usage()


def _usage() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10
