"""Writes docs/fields.md from the request classes: every field that the server reads, its default and limits, and those that it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vtcore.api.chat import ChatRequest
from vtcore.api.completion import CompletionRequest
from vtcore.api.constraints import UNSERVED
from vtcore.api.responses import ResponsesRequest
from vtcore.api.sampling import Sampling

PAGE = Path(__file__).parents[1] / "docs/fields.md"
OWN = (("/v1/chat/completions", ChatRequest), ("/v1/completions", CompletionRequest), ("/v1/responses", ResponsesRequest))


def lines() -> Iterator[str]:
    """The page, line by line."""
    yield from (
        "# Fields of requests",
        "",
        "Written by `python tools/fields_table.py` from the request classes; a test holds it to them.",
        "",
    )
    yield from (
        "Names and meanings are OpenAI's and vLLM's. null: what the model's generation_config.json says, or their default. `max_tokens`,",
        "`max_completion_tokens` and `max_output_tokens` are the same limit, and each holds on all routes.",
        "",
    )
    yield from ("## All routes that generate", "", *_table(Sampling, ()))
    for path, cls in OWN:
        yield from ("", f"## `{path}`, besides these", "", *_table(cls, tuple(Sampling.model_fields)))
    yield from (
        "",
        "## Refused",
        "",
        "A constraint is honoured, or the request is refused with status 400. A field that is not on this page has",
        "no effect.",
        "",
    )
    yield from ("| field | why |", "|---|---|", *(f"| `{name}` | {why} |" for name, (why, _) in UNSERVED.items()))


def _table(cls: type[BaseModel], known: tuple[str, ...]) -> Iterator[str]:
    schema = cls.model_json_schema(ref_template="{model}")
    yield from ("| field | type | default | |", "|---|---|---|---|")
    for name, told in schema["properties"].items():
        if name not in known:
            default = "required" if name in schema.get("required", ()) else f"`{json.dumps(told.get('default'))}`"
            yield f"| `{name}` | {_type(told)} | {default} | {told.get('description', '')} |"


def _type(told: dict[str, Any]) -> str:
    """A JSON schema in a few words."""
    if "anyOf" in told:
        return " or ".join(dict.fromkeys(_type(t) for t in told["anyOf"] if t.get("type") != "null"))
    if "$ref" in told:
        return str(told["$ref"])
    kind = "one of " + ", ".join(told["enum"]) if "enum" in told else str(told.get("type", "any"))
    inner = f" of {_type(told['items'])}" if kind == "array" and told.get("items") else ""
    limits = [f"{sign} {told[key]}" for key, sign in LIMITS.items() if key in told]
    return kind + inner + (f" ({', '.join(limits)})" if limits else "")


LIMITS = {
    "minimum": "≥",
    "maximum": "≤",
    "exclusiveMaximum": "<",
    "minItems": "at least",
    "maxItems": "at most",
    "maxProperties": "at most",
}


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
