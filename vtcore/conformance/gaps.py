"""Known gaps: failures that are listed with a reason, so that a CI is red for new ones only. A line that no longer fails is reported.

One line each: an op, or a case as reports call it, then the reason. `#` before a space begins a comment.

    # kept until the next release
    softmax       rows of one element are not written
    rms_norm#3    three axes"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vtcore.conformance.verdict import Verdict
from vtcore.errors import ArgumentError, nearest
from vtcore.op import REGISTRY


@dataclass(frozen=True)
class Gap:
    """One line."""

    name: str  # of an op, or a case's label
    reason: str
    where: str  # file:line

    def holds(self, verdict: Verdict) -> bool:
        """Whether it is about this case."""
        return self.name in (verdict.case.op.name, verdict.case.label)


class Gaps:
    """The lines of a file. Raises ArgumentError where one has no reason, or names no op."""

    def __init__(self, path: Path | None = None) -> None:
        self.gaps = [] if path is None else _read(path)

    def seen(self, verdict: Verdict) -> Verdict:
        """A failure that is listed as a known gap; anything else as it is."""
        gap = next((g for g in self.gaps if g.holds(verdict)), None) if verdict.bad else None
        return verdict if gap is None else verdict.known(gap.reason)

    def stale(self, verdicts: Sequence[Verdict], whole: bool = True) -> list[str]:
        """The lines about cases that were run and don't fail. `whole`: every sample of the ops was run; then an op's line is stale where
        none of them fails, and so is that of a sample that there is not."""
        return [f"{g.where}: {g.name}: {g.reason}" for g in self.gaps if _passes(g, verdicts, whole)]


def _passes(gap: Gap, verdicts: Sequence[Verdict], whole: bool) -> bool:
    op, _, number = gap.name.partition("#")
    outcomes = [v.outcome for v in verdicts if gap.holds(v)]
    if outcomes:
        return "known_gap" not in outcomes and (whole or bool(number))
    return whole and number.isdigit() and any(v.case.op.name == op for v in verdicts)


def _read(path: Path) -> list[Gap]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as wrong:
        raise ArgumentError(f"known gaps can't be read from {path}: {wrong}") from None
    numbered = [(i, line.strip()) for i, line in enumerate(lines, 1)]
    return [_gap(f"{path}:{i}", line) for i, line in numbered if line and not (line == "#" or line.startswith("# "))]


def _gap(where: str, line: str) -> Gap:
    name, _, reason = line.partition(" ")
    op = name.partition("#")[0]
    if op not in REGISTRY:
        raise ArgumentError(
            f"{where}: there is no op {op!r}{nearest(op, REGISTRY)}; a line is an op or a case such as rms_norm#3, then a reason"
        )
    if not reason.strip():
        raise ArgumentError(f"{where}: {name} has no reason; a known gap says why it is one")
    return Gap(name, reason.strip(), where)
