"""What ran where, what declined and why, and what was copied: as text, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from vtcore.provider import Decline


@dataclass(frozen=True)
class Ran:
    op: str
    provider: str
    calls: int


@dataclass(frozen=True)
class Declined:
    op: str
    provider: str
    reason: str
    calls: int


@dataclass(frozen=True)
class Copied:
    op: str
    way: str  # "host->opencl"
    copies: int
    nbytes: int
    milliseconds: float  # that the host spent on them


@dataclass(frozen=True)
class Report:
    """Most frequent first."""

    ran: tuple[Ran, ...]
    declined: tuple[Declined, ...]
    copied: tuple[Copied, ...]

    @classmethod
    def of(
        cls,
        ran: Mapping[tuple[str, str], int],
        declines: Mapping[Decline, int],
        copies: Mapping[tuple[str, str], int],
        nbytes: Mapping[tuple[str, str], int],
        seconds: Mapping[tuple[str, str], float],
    ) -> Report:
        """From a dispatcher's counters."""
        rows = [Ran(op, provider, n) for (op, provider), n in ran.items()]
        refused = [Declined(d.op, d.provider, d.reason, n) for d, n in declines.items()]
        moved = [Copied(op, way, n, nbytes[op, way], round(seconds[op, way] * 1e3, 3)) for (op, way), n in copies.items()]
        return cls(
            tuple(sorted(rows, key=lambda r: (-r.calls, r.op, r.provider))),
            tuple(sorted(refused, key=lambda d: (-d.calls, d.op, d.provider, d.reason))),
            tuple(sorted(moved, key=lambda c: (-c.nbytes, c.op, c.way))),
        )

    def json(self) -> dict[str, Any]:
        """As plain lists and dictionaries."""
        return {
            "ran": [asdict(r) for r in self.ran],
            "declined": [asdict(d) for d in self.declined],
            "copied": [asdict(c) for c in self.copied],
        }

    def __str__(self) -> str:
        ran = [f"{r.calls:8d}  {r.op:20s} {r.provider}" for r in self.ran] or ["       (nothing)"]
        refused = [f"{d.calls:8d}  {d.op:20s} {d.provider}: {d.reason}" for d in self.declined] or ["       (nothing)"]
        moved = [f"{c.copies:8d}  {c.op:20s} {c.way}  {c.nbytes} bytes, {c.milliseconds:.1f} ms" for c in self.copied] or [
            "       (nothing)"
        ]
        return "\n".join(["ran", *ran, "declined", *refused, "copied between memories", *moved])
