"""What the driver needs of a server, and how answers from outside are read: nothing in them is taken on trust."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vtcore.oracle.followed import NotComparedError
from vtcore.oracle.servers.client import Client

ROUNDED, LOWEST = 1e-3, -9000.0  # a certain token's, with what rounding adds; and what stands for minus infinity (vLLM's is -9999)
MOST_LOGPROBS = 20  # alternatives that servers give by default (vLLM's --max-logprobs)


@dataclass(frozen=True)
class Told:
    """A token as a server tells it: by id, by text, or both; its log probability; the alternatives in its place."""

    token: int | None
    text: str | None
    logprob: float | None
    others: tuple[Told, ...] = ()


@dataclass(frozen=True)
class Generated:
    """What came of a request. finish: "stop", "length" or the server's own word. prompt_tokens: how many it counted."""

    told: tuple[Told, ...]
    finish: str
    prompt_tokens: int | None


@dataclass(frozen=True)
class Asked:
    """A prefix, as ids and, for servers that take nothing else, as text."""

    ids: Sequence[int]
    text: str | None
    count: int  # alternatives wanted


def best(told: Told) -> Told:
    """The likeliest in the place of a prompt's token: that itself, or an alternative to it."""
    everyone = (Told(told.token, told.text, told.logprob), *told.others)
    first = max(everyone, key=lambda t: -1e9 if t.logprob is None else t.logprob)
    return Told(first.token, first.text, first.logprob, everyone)


class Dialect(Protocol):
    """One kind of server. name: whose. scores: can give log probabilities of a prompt's own tokens. takes_ids: prompts may be ids."""

    name: str
    scores: bool
    takes_ids: bool

    def __init__(self, client: Client, model: str) -> None: ...

    def version(self) -> str | None:
        """The server's own."""
        ...

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """The server's ids of a text; None: it doesn't say."""
        ...

    def generate(self, asked: Asked, count: int) -> Generated:
        """`count` greedy tokens after a prefix."""
        ...

    def score(self, asked: Asked, count: int) -> Generated:
        """What it says in the places of the last `count` ids: the likeliest token, and among the alternatives the id that is there."""
        ...


def item(value: Any, *path: str | int) -> Any:
    """What stands at a path of keys and indices. Raises NotComparedError, naming it, where nothing does."""
    seen = value
    for key in path:
        try:
            seen = seen[key]
        except (KeyError, IndexError, TypeError) as wrong:
            raise NotComparedError(f"its answer has no {'.'.join(map(str, path))}: {value!r:.120}") from wrong
    return seen


def rows(value: Any, *path: str | int) -> list[Any]:
    """A list at a path."""
    found = item(value, *path)
    if not isinstance(found, list):
        raise NotComparedError(f"its answer has {found!r:.60} as {'.'.join(map(str, path))}; a list is needed")
    return found


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise NotComparedError(f"its answer has {value!r:.60} as {what}; an object is needed")
    return value


def listed(value: Any, what: str) -> list[Any]:
    """A list that may be left out."""
    if value is not None and not isinstance(value, list):
        raise NotComparedError(f"its answer has {value!r:.60} as {what}; a list is needed")
    return value or []


def integer(value: Any, what: str) -> int:
    """A token id or a count."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise NotComparedError(f"its answer has {value!r:.60} as {what}; a whole number from 0 is needed")
    return value


def count_at(value: Any, *path: str | int) -> int | None:
    """A count that may be left out."""
    try:
        found = item(value, *path)
    except NotComparedError:
        return None
    return None if found is None else integer(found, ".".join(map(str, path)))


def ids_at(value: Any, *path: str | int) -> list[int]:
    """A list of token ids."""
    return [integer(i, ".".join(map(str, path))) for i in rows(value, *path)]


def number(value: Any) -> float | None:
    """A log probability; None where there is none, or it stands for minus infinity."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise NotComparedError(f"its answer has {value!r:.60} as a log probability; a number is needed")
    if value > ROUNDED:
        raise NotComparedError(f"its answer has {value!r:.60} as a log probability; they are never above 0: these may be logits")
    return float(value) if value > LOWEST else None


def text_of(value: Any) -> str | None:
    """A token's text, if it is told."""
    return value if isinstance(value, str) else None


def check_length(told: Sequence[Any], count: int, what: str) -> None:
    """That there is one for each of `count` tokens."""
    if len(told) != count:
        raise NotComparedError(f"its answer has {len(told)} {what}; {count} are needed")
