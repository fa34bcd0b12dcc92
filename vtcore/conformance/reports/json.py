"""Everything, for programs."""

from __future__ import annotations

import json
from typing import Any

from vtcore.conformance.record import Record
from vtcore.conformance.verdict import Verdict


def render(record: Record) -> str:
    """One object: the run, the counts of each op, and every verdict."""
    head = {
        "provider": record.provider,
        "facts": dict(record.facts),
        "vtcore": record.version,
        "seed": record.seed,
        "fuzz": record.fuzz,
        "seconds": round(record.seconds, 3),
        "failed": record.failed,
        "stale": list(record.stale),
        "counts": dict(record.counts()),
        "ops": {op: dict(record.counts(op)) for op in record.by_op},
    }
    return json.dumps(head | {"verdicts": [_verdict(record, v) for v in record.verdicts]}, indent=1)


def _verdict(record: Record, verdict: Verdict) -> dict[str, Any]:
    """With the command that runs it again, and the file of its inputs, where it failed."""
    saved = record.saved.get(verdict.case.label)
    return verdict.as_dict() | ({"again": record.again(verdict)} if verdict.bad else {}) | ({"saved": saved} if saved else {})
