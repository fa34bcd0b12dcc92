"""Everything, for programs."""

from __future__ import annotations

import json

from vtcore.conformance.record import Record


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
    verdicts = [v.as_dict() | ({"again": record.again(v)} if v.bad else {}) for v in record.verdicts]
    return json.dumps(head | {"verdicts": verdicts}, indent=1)
