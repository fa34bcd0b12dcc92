"""A record: all verdicts of one check of one provider, and what a report says besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from shlex import quote

from vtcore.conformance.verdict import Verdict

IDLE = "nothing ran: every call was declined, so nothing was checked"


@dataclass
class Record:
    """One provider, checked."""

    provider: str  # as it was asked for: a name, or a path
    seed: int
    fuzz: int = 0  # drawn calls an op, besides the samples
    facts: Mapping[str, str] = field(default_factory=dict)  # of the provider
    version: str = ""  # of vtcore
    verdicts: list[Verdict] = field(default_factory=list)
    stale: Sequence[str] = ()  # known gaps that are none, each with its line
    saved: dict[str, str] = field(default_factory=dict)  # label of a case -> its .npz
    seconds: float = 0.0
    cases: str = ""  # where saved cases were read from instead of samples

    @property
    def failed(self) -> bool:
        """Whether a CI should be red."""
        return self.idle or bool(self.stale) or any(v.bad for v in self.verdicts)

    @property
    def idle(self) -> bool:
        """Whether nothing ran: every call was declined, so that nothing is known of the provider."""
        return all(v.outcome == "declined" for v in self.verdicts)

    @cached_property
    def by_op(self) -> dict[str, list[Verdict]]:
        """The verdicts of each op, in order."""
        ops: dict[str, list[Verdict]] = {}
        for verdict in self.verdicts:
            ops.setdefault(verdict.case.op.name, []).append(verdict)
        return ops

    def counts(self, op: str | None = None) -> Counter[str]:
        """How many of each outcome, of one op or of all."""
        return Counter(v.outcome for v in (self.verdicts if op is None else self.by_op[op]))

    def again(self, verdict: Verdict) -> str:
        """The command that runs one case again."""
        case = verdict.case
        if self.cases:
            return f"vtcore check {quote(self.provider)} {case.op.name} --cases {quote(case.path or self.cases)}"
        number = case.label.partition("#")[2]
        wanted = f"--fuzz {self.fuzz}" if case.source == "drawn" else f"--case {number}"
        return f"vtcore check {quote(self.provider)} {case.op.name} {wanted} --seed {self.seed}"
