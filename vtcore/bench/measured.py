"""One figure of a benchmark, with the runs that it is the median of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Measured:
    """`value` in `unit`: the median of `runs`; None where it could not be measured, and then `note` says why."""

    name: str
    value: float | None
    unit: str
    runs: tuple[float, ...] = ()
    note: str = ""

    def json(self) -> dict[str, Any]:
        """As plain data, without the name."""
        data = asdict(self)
        del data["name"]
        return {**data, "runs": list(self.runs)}


def measured(name: str, runs: Sequence[float], unit: str, note: str = "") -> Measured:
    """The median of several runs."""
    return Measured(name, median(runs), unit, tuple(runs), note)


def unmeasured(name: str, unit: str, reason: str) -> Measured:
    """A figure that is not to be had here."""
    return Measured(name, None, unit, (), reason)


@dataclass(frozen=True)
class Effort:
    """How much is run for a figure. A run before the counted ones compiles kernels and fills caches, and isn't counted."""

    repetitions: int = 5
    steps: int = 32  # of decode in a run
    starts: int = 5  # of fresh processes
    passes: int = 20  # over memory


FULL, QUICK = Effort(), Effort(repetitions=1, steps=8, starts=1, passes=5)
