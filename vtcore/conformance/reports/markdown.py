"""Markdown, for a pull request's comment: a table of ops, then the failures."""

from __future__ import annotations

from collections.abc import Iterator

from vtcore.conformance.record import IDLE, Record
from vtcore.conformance.verdict import OUTCOMES


def render(record: Record) -> str:
    """The whole report."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Record) -> Iterator[str]:
    yield f"## vtcore check {record.provider}: {'failed' if record.failed else 'passed'}"
    yield ""
    yield f"| op | {' | '.join(o.replace('_', ' ') for o in OUTCOMES)} | worst error by its bound |"
    yield "|---" * (2 + len(OUTCOMES)) + "|"
    for op in record.by_op:
        counts = record.counts(op)
        yield f"| {op} | {' | '.join(str(counts[o] or '') for o in OUTCOMES)} | {_worst(record, op)} |"
    yield from _failures(record)


def _worst(record: Record, op: str) -> str:
    shares = [v.worst.share for v in record.by_op[op] if v.worst is not None and v.worst.bound]
    return f"{max(shares):.2g}" if shares else ""


def _failures(record: Record) -> Iterator[str]:
    for verdict in record.verdicts:
        if verdict.bad:
            yield from ("", f"**{verdict.case.label}** {verdict.kind}: `{record.again(verdict)}`", "", "```", str(verdict), "```")
    for line in record.stale:
        yield from ("", f"**stale known gap**: {line}")
    if record.idle:
        yield from ("", f"**{IDLE}**")
