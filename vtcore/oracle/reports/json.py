"""A comparison as one JSON object."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from vtcore.oracle.verdict import Comparison, Outcome, PromptVerdict


def as_json(comparison: Comparison) -> str:
    """All of it: every token of every prompt."""
    c = comparison
    return json.dumps(
        {
            "passed": c.passed,
            "near_ties_pass": c.near_ties_pass,
            "counts": {o.value: c.count(o) for o in Outcome},
            "recording": {"file": c.recording, "model": c.model, "engine": dict(c.recorded)},
            "engine": dict(c.engine),
            "arithmetic": c.arithmetic,
            "tolerances": asdict(c.tolerances),
            "notes": list(c.notes),
            "prompts": [_prompt(v) for v in c.verdicts],
        },
        indent=1,
        allow_nan=False,
    )


def _prompt(v: PromptVerdict) -> dict[str, Any]:
    places = [_finite({**asdict(p), "kind": p.kind.value}) for p in v.places]
    return {
        "name": v.name,
        "text": v.text,
        "outcome": v.outcome.value,
        "reason": v.reason,
        "how": v.how,
        "compared": v.compared,
        **_finite({"largest_difference": v.largest_difference}),
        "first": None if v.first is None else v.first.position,
        "first_layer": None if v.first_layer is None else _finite(asdict(v.first_layer)),
        "tokens": places,
    }


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """With a text in the place of infinities, which JSON has no numbers for."""
    return {n: str(v) if isinstance(v, float) and not math.isfinite(v) else v for n, v in values.items()}
