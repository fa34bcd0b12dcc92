"""A comparison as one JSON object."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from vtcore.oracle.verdict import Comparison, Outcome, PromptVerdict


def as_json(comparison: Comparison) -> str:
    """All of it: every token of every prompt."""
    c = comparison
    return json.dumps(
        {
            "passed": c.passed,
            "counts": {o.value: c.count(o) for o in Outcome},
            "recording": {"file": c.recording, "model": c.model, "engine": dict(c.recorded)},
            "engine": dict(c.engine),
            "arithmetic": c.arithmetic,
            "tolerances": asdict(c.tolerances),
            "notes": list(c.notes),
            "prompts": [_prompt(v) for v in c.verdicts],
        },
        indent=1,
    )


def _prompt(v: PromptVerdict) -> dict[str, Any]:
    places = [{**asdict(p), "kind": p.kind.value} for p in v.places]
    return {
        "name": v.name,
        "text": v.text,
        "outcome": v.outcome.value,
        "reason": v.reason,
        "how": v.how,
        "compared": v.compared,
        "largest_difference": v.largest_difference,
        "first": None if v.first is None else v.first.position,
        "first_layer": None if v.first_layer is None else asdict(v.first_layer),
        "tokens": places,
    }
