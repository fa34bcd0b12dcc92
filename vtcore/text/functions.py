"""The functions that chat templates may call: as transformers has them, within the budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NoReturn

from jinja2.utils import Namespace

from vtcore.errors import TemplateError
from vtcore.text.budget import current

Clock = Callable[[], datetime]
CLOCK: ContextVar[Clock] = ContextVar("clock")
LONGEST_FORMAT = 256
LONGEST_SEPARATOR = 64
LONGEST_MESSAGE = 4096


class Names(Namespace):
    """A namespace. It prints as its kind alone: what it holds may be large, or the namespace itself."""

    def __repr__(self) -> str:
        return "<Namespace>"


def dictionary(items: Mapping[Any, Any] | Iterable[Any] = (), /, **named: Any) -> dict[Any, Any]:
    """`dict(...)`, one entry at a time: keys with equal hashes make a dictionary slow."""
    pairs = items.items() if isinstance(items, Mapping) else items
    return {**{key: value for key, value in current().each(pairs)}, **named}  # noqa: C416 - not by dict(), which isn't counted


def namespace(*args: Any, **named: Any) -> Names:
    """`namespace(...)`, as `dict(...)`."""
    values = dictionary(*args, **named)
    if any(str(name).startswith("_") for name in values):
        raise TemplateError("the chat template names a namespace's attribute with an underscore in front; that is not allowed")
    return Names(values)


def raise_exception(message: Any) -> NoReturn:
    """The template's own error."""
    raise TemplateError(str(message)[:LONGEST_MESSAGE])


def strftime_now(form: Any) -> str:
    """Today's date and time."""
    if not isinstance(form, str) or len(form) > LONGEST_FORMAT:
        raise TemplateError(f"strftime_now takes a format of at most {LONGEST_FORMAT} characters")
    return CLOCK.get()().strftime(form)


def tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
) -> str:
    """JSON as Python's json module writes it: no HTML escapes, letters as they are, ", " and ": ", keys in their order."""
    lengths = [*map(len, separators or ()), indent if isinstance(indent, int) else len(indent or "")]
    if max(lengths) > LONGEST_SEPARATOR:
        raise TemplateError(f"tojson takes an indent and separators of at most {LONGEST_SEPARATOR} characters")
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    pieces, total = [], 0
    for piece in current().each(encoder.iterencode(value)):
        total += len(piece)
        current().fits(total)
        pieces.append(piece)
    return "".join(pieces)


FUNCTIONS: dict[str, Any] = {
    "dict": dictionary,
    "namespace": namespace,
    "raise_exception": raise_exception,
    "strftime_now": strftime_now,
}
