"""A recorded call: who asks what, and what must hold of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

CALLS = Path(__file__).parents[2] / "tests/data/openai_calls.jsonl"


@dataclass(frozen=True)
class Call:
    """`route` is a path of the API; `body` what is posted there, null: a GET. `times`: so many at once, by clients that can."""

    name: str
    client: str  # "openai", "openai-async", "curl" or "langchain"
    route: str
    body: dict[str, Any] | None = None
    raw: str | None = None  # instead of a body: what is posted as it stands
    status: int = 200
    times: int = 1
    key: str | None = None  # instead of the server's own
    holds: dict[str, Any] = field(default_factory=dict)


class Server(NamedTuple):
    """Where the calls go. `base` ends before /v1."""

    base: str
    key: str
    model: str


class Outcome(NamedTuple):
    """The status, and the answer as plain data; of a stream, what `gathered` makes of its frames."""

    status: int
    told: Any


def load(model: str, path: Path = CALLS) -> list[Call]:
    """The recorded calls, of a model by this name."""
    lines = path.read_text(encoding="utf-8").replace("MODEL", model).splitlines()
    return [Call(**json.loads(line)) for line in lines]


def gathered(frames: list[dict[str, Any]]) -> dict[str, Any]:
    """A stream's frames, put together: text and finish_reason of each choice, the first frame, and the usage."""
    texts: dict[str, str] = {}
    finish: dict[str, Any] = {}
    scores = 0
    for frame in frames:
        for choice in frame.get("choices") or ():
            at = str(choice["index"])
            texts[at] = texts.get(at, "") + (choice["text"] if "text" in choice else choice["delta"].get("content") or "")
            finish[at] = choice.get("finish_reason") or finish.get(at)
            told = choice.get("logprobs") or {}
            scores += len(told.get("content") or told.get("tokens") or ())
    usage = next((f["usage"] for f in reversed(frames) if f.get("usage")), None)
    return {
        "frames": len(frames),
        "first": frames[0],
        "last": frames[-1],
        "texts": texts,
        "finish": finish,
        "usage": usage,
        "scores": scores,
    }


def broken(call: Call, outcome: Outcome) -> Iterator[str]:
    """What does not hold, a line each."""
    if outcome.status != call.status:
        yield f"status is {outcome.status}, not {call.status}: {str(outcome.told)[:200]}"
        return
    for path, wanted in call.holds.items():
        found = _at(outcome.told, path)
        if not _fits(found, wanted, outcome.told):
            yield f"{path} is {found!r:.120}, not {wanted!r:.120}"


def _at(told: Any, path: str) -> Any:
    """A part by its path, such as choices.0.text; a last # is a length. None where there is nothing."""
    for step in path.split("."):
        if step == "#":
            return None if told is None else len(told)
        if isinstance(told, Mapping):
            told = told.get(step)
        elif isinstance(told, list) and step.isdigit() and int(step) < len(told):
            told = told[int(step)]
        else:
            return None
    return told


def _fits(found: Any, wanted: Any, told: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(found == wanted)
    (rule, value), *_ = wanted.items()
    if rule == "same":
        return bool(found == _at(told, value))
    if rule == "is":
        return bool(type(found).__name__ == value)
    if found is None:
        return False
    return bool(value in found) if rule == "has" else bool(value[0] <= found <= value[1])  # the rule "from"
