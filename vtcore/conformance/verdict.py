"""A verdict: what came of one case on one provider, with a name for what was wrong. Plain values: reports are made of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from vtcore.conformance.case import Case

Outcome = Literal["pass", "fail", "declined", "known_gap", "error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
KINDS = {  # what can be wrong with a kernel, in one line each
    "wrong_value": "a value is farther from the definition than the tolerance allows",
    "wrong_shape": "a result has another shape, or there are more or fewer results",
    "wrong_dtype": "a result has another dtype",
    "wrong_layout": "a result is no contiguous Tensor",
    "view_of_input": "a result lies in the memory of an argument",
    "wrote_input": "an argument was changed that the op doesn't write",
    "out_of_bounds": "bytes beside an array were changed, or between its rows",
    "nondeterministic": "the same call twice in a row gave other bits",
    "stateful": "a call's result depends on the calls before it",
    "raised": "the kernel raised an exception",
    "timed_out": "the kernel was not done within the time limit",
    "crashed": "the kernel ended the process",
}


@dataclass(frozen=True)
class Difference:
    """The element that is nearest to its bound, or farthest over it."""

    what: str  # "result", "result 1" or the name of a written argument
    index: tuple[int, ...]
    got: Any
    want: Any
    error: float  # absolute
    bound: float

    @property
    def relative(self) -> float:
        """The error by the wanted value's magnitude."""
        return self.error / abs(float(self.want)) if self.want else np.inf if self.error else 0.0

    @property
    def ulps(self) -> float:
        """The error in units of the wanted value's last place."""
        with np.errstate(all="ignore"):
            return float(self.error / np.spacing(abs(np.float32(self.want))))

    @property
    def share(self) -> float:
        """The error by its bound: over 1 is wrong; of equal values 0."""
        return self.error / self.bound if self.bound else np.inf if self.error else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON: NaN and infinities as text."""
        numbers = {n: _number(getattr(self, n)) for n in ("got", "want", "error", "relative", "ulps", "bound", "share")}
        return {"what": self.what, "index": list(self.index), **numbers}

    def __str__(self) -> str:
        measures = f"off by {self.error:.3g} ({self.relative:.3g} relative, {self.ulps:.3g} ulp); allowed {self.bound:.3g}"
        return f"{self.what}{list(self.index)} is {self.got}, the definition gives {self.want}: {measures}"


@dataclass(frozen=True)
class Verdict:
    """What came of one case on one provider."""

    case: Case
    provider: str
    outcome: Outcome
    reason: str = ""  # of anything but a pass, in words
    worst: Difference | None = None
    kind: str = ""  # of a fail or an error: one of KINDS; a known gap keeps the one that it had
    seconds: float = 0.0  # of the kernel's first run of this case
    bound_at: str = ""  # file:line where the bound is set

    @property
    def bad(self) -> bool:
        """Whether it fails a run."""
        return self.outcome in ("fail", "error")

    def known(self, reason: str) -> Verdict:
        """The same as a known gap."""
        return replace(self, outcome="known_gap", reason=f"{reason} ({self.kind}: {self.reason})")

    def without_arrays(self) -> Verdict:
        """The same, for a list of thousands."""
        return replace(self, case=self.case.slim())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "op": self.case.op.name,
            "case": self.case.label,
            "call": repr(self.case),
            "provider": self.provider,
            "outcome": self.outcome,
            "kind": self.kind,
            "reason": self.reason,
            "worst": self.worst and self.worst.as_dict(),
            "bound_at": self.bound_at,
            "seconds": round(self.seconds, 6),
        }

    def __str__(self) -> str:
        first = f"{self.outcome:8s} {self.provider} {self.case.label} {self.case}"
        reason = f"{self.kind}: {self.reason}" if self.kind else self.reason
        return first + (f"\n    {reason}" if reason else "")


def _number(value: Any) -> Any:
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, (bool, int)):
        return number
    number = float(number)
    return number if math.isfinite(number) else str(number)
