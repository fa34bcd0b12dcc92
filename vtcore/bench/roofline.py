"""What this machine's processor can do at best, measured: the bytes and the float32 operations of a second (Williams, Waterman and
Patterson, Roofline, 2009)."""

from __future__ import annotations

from dataclasses import dataclass

from vtcore.bench.traffic import array_bytes
from vtcore.providers import ProviderOptions, find

TASKS = 2000  # of the arithmetic of a pass: some tens of milliseconds


@dataclass(frozen=True)
class Roofline:
    """Rates a second, both with kernels of the portable provider on `threads` threads."""

    bandwidth: float
    flops: float
    threads: int

    def better(self, other: Roofline) -> Roofline:
        """The higher of both rates."""
        return Roofline(max(self.bandwidth, other.bandwidth), max(self.flops, other.flops), self.threads)

    def seconds(self, nbytes: int, flops: int | None) -> float:
        """The least time that so many bytes and operations take."""
        return max(nbytes / self.bandwidth, (flops or 0) / self.flops)

    def bound(self, nbytes: int, flops: int | None) -> str:
        """Which of them is the limit."""
        return "arithmetic" if (flops or 0) / self.flops > nbytes / self.bandwidth else "memory"


def roofline(threads: int | None = None, passes: int = 10) -> Roofline:
    """Measure: the best pass of several, since only disturbance makes one slower."""
    from vtcore.providers.portable.peak import measure as arithmetic
    from vtcore.providers.portable.provider import Portable
    from vtcore.providers.portable.read_bandwidth import measure as memory

    portable = find("portable", ProviderOptions(threads=threads))
    assert isinstance(portable, Portable)
    try:
        return Roofline(max(memory(portable, array_bytes(), passes)), max(arithmetic(portable, TASKS, passes)), portable.team.threads)
    finally:
        portable.close()
