"""For a terminal: the failures in full, then a line an op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vtcore.conformance.record import IDLE, Record
from vtcore.conformance.verdict import OUTCOMES, Verdict

NONE = "no kernel"  # a decline that needs no line of its own
SHOWN = 3  # failures of one op that are shown in full


def render(record: Record) -> str:
    """The whole report."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Record) -> Iterator[str]:
    for verdicts in record.by_op.values():
        bad = [v for v in verdicts if v.bad]
        for verdict in bad[:SHOWN]:
            yield from _failure(record, verdict)
        if len(bad) > SHOWN:
            yield f"... and {len(bad) - SHOWN} more of {bad[0].case.op.name}: --format json has them all\n"
    yield from (
        f"{op:22s} {_counted(record.counts(op))}" for op, verdicts in record.by_op.items() if {v.reason for v in verdicts} != {NONE}
    )
    yield from _declines(record)
    yield from (f"stale known gap: {line}" for line in record.stale)
    if record.idle:
        yield IDLE
    if note := record.facts.get("note"):
        yield f"{record.provider}: {note}"
    yield f"{record.provider}: {_counted(record.counts())} in {record.seconds:.1f} s"


def _failure(record: Record, verdict: Verdict) -> Iterator[str]:
    yield str(verdict)
    yield f"    again: {record.again(verdict)}"
    if saved := record.saved.get(verdict.case.label):
        yield "    in Python:"
        yield from ("        " + line for line in three_lines(record.provider, saved))
    yield ""


def three_lines(provider: str, saved: str) -> tuple[str, str, str]:
    """How a saved case is run from Python."""
    return (
        "from vtcore.conformance import find, load, run",
        f"case = load({saved!r})",
        f"print(run(find({provider!r}), case))",
    )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[o]} {o}" for o in OUTCOMES if counts[o]) or "nothing"


def _declines(record: Record) -> Iterator[str]:
    reasons = Counter((v.case.op.name, v.reason) for v in record.verdicts if v.outcome == "declined")
    missing = sorted(op for op, reason in reasons if reason == NONE)
    if missing:
        yield f"no kernel: {', '.join(missing)}"
    yield from (f"declined {n} of {op}: {reason}" for (op, reason), n in sorted(reasons.items()) if reason != NONE)
