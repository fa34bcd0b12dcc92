"""The operations of a template that make much of little: what each would make is known, and checked, before it is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2.sandbox import SandboxedFormatter

from vtcore.errors import TemplateError
from vtcore.text.budget import MOST_BITS, current

WIDEST = 1 << 16
SEARCHES = ("lstrip", "rfind", "rindex", "rpartition", "rsplit", "rstrip", "strip")  # Python has no fast way for these
Arguments = tuple[list[Any], dict[str, Any]]


def _given(args: list[Any], kwargs: Mapping[str, Any], index: int, name: str, default: Any = None) -> Any:
    return args[index] if index < len(args) else kwargs.get(name, default)


def narrow(args: list[Any], kwargs: Mapping[str, Any]) -> None:
    """No number among the arguments is one that a text is widened or a list is cut by over all measure."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, int) and abs(value) > WIDEST:
            raise TemplateError(f"the chat template asks for a width or count of {value}; up to {WIDEST} is allowed")


def _replace(text: str, old: str, new: str) -> None:
    times = text.count(old) if old else len(text) + 1
    current().fits(len(text) + times * len(new))


def _join(items: list[Any], separator: str) -> None:
    current().fits(current().weigh(items) + len(items) * len(separator))


def _indent(text: str, width: Any) -> None:
    current().fits(len(text) + (text.count("\n") + 1) * (len(width) if isinstance(width, str) else abs(int(width))))


def before_filter(name: str, value: Any, args: list[Any], kwargs: Mapping[str, Any]) -> Any:
    """Check a filter's call, and give its value back, a list where an iterator had to be looked through."""
    if name in ("center", "batch", "slice", "round"):
        narrow(args, kwargs)
    elif name == "indent":
        _indent(str(value), _given(args, kwargs, 0, "width", 4))
    elif name == "replace":
        _replace(str(value), str(_given(args, kwargs, 0, "old", "")), str(_given(args, kwargs, 1, "new", "")))
    elif name == "format":
        percent(str(value), dict(kwargs) if kwargs else tuple(args))
    elif name == "join":
        value = list(value)
        _join(value, str(_given(args, kwargs, 0, "d", "")))
    elif name == "trim":
        current().work(len(str(value)), len(str(_given(args, kwargs, 0, "chars", ""))))
    elif name == "sum" and not isinstance(_given(args, kwargs, 1, "start", 0), (int, float)):
        raise TemplateError("the chat template sums what is not numbers")
    return value


def _expandtabs(text: str, size: Any = 8) -> None:
    current().fits(len(text) + text.count("\t") * abs(int(size)))


def before_method(text: str, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Check a call of a string's method, and give its arguments back."""
    if name in ("center", "ljust", "rjust", "zfill"):
        narrow(args, kwargs)
    elif name == "expandtabs":
        _expandtabs(text, *args, *kwargs.values())
    elif name in SEARCHES and args and isinstance(args[0], str):
        current().work(len(text), len(args[0]))
    elif name == "replace" and len(args) > 1:
        _replace(text, str(args[0]), str(args[1]))
    elif name == "join" and args:
        args = [list(current().each(args[0])), *args[1:]]
        _join(args[0], text)
    return args


def percent(text: str, arguments: Any) -> None:
    """Check `text % arguments`: widths and precisions, and what every conversion may print."""
    widths, conversions, stars = _conversions(text)
    numbers = arguments if isinstance(arguments, tuple) else (arguments,)
    if stars:
        widths += sum(abs(n) for n in numbers if isinstance(n, int))
    current().fits(len(text) + widths + conversions * current().weigh(arguments))


FIELD = re.compile(r"[#0\- +]*(\*|\d+)?(?:\.(\*|\d+))?")


def _conversions(text: str) -> tuple[int, int, bool]:
    """Of a format string: the sum of its widths and precisions, the number of its conversions, and whether some widths are arguments."""
    widths, conversions, stars, at = 0, 0, False, text.find("%")
    while at >= 0:
        field = FIELD.match(text, _behind_key(text, at + 1))
        assert field is not None  # it matches the empty string
        for width in field.groups():
            stars = stars or width == "*"
            widths += int(width[:9]) if width and width != "*" else 0
        conversions += 1
        at = text.find("%", field.end() + (text[field.end() : field.end() + 1] == "%"))
    return widths, conversions, stars


def _behind_key(text: str, at: int) -> int:
    """Past `(key)`, whose parentheses may be nested."""
    if text[at : at + 1] != "(":
        return at
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i + 1
    return len(text)


def before_operator(operator: str, left: Any, right: Any) -> None:
    """Check a binary operator."""
    sequences = [x for x in (left, right) if isinstance(x, (str, list, tuple))]
    if operator == "+" and len(sequences) == 2:
        current().fits(sum(map(current().weigh, sequences)))
    elif operator == "*" and sequences:
        count = right if sequences[0] is left else left
        current().fits(current().weigh(sequences[0]) * (count if isinstance(count, int) else 1))
    elif operator == "%" and isinstance(left, str):
        percent(left, right)
    elif operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * max(right, 0) if operator == "**" else left.bit_length() + right.bit_length()
        if bits > MOST_BITS:
            raise TemplateError(f"the chat template makes an integer of about {bits} bits; {MOST_BITS} are allowed")


class BoundedFormatter(SandboxedFormatter):
    """`str.format` with widths, and a whole, of bounded length."""

    length = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        narrow([int(digits[:9]) for digits in re.findall(r"\d+", format_spec)], {})
        current().weigh(value)
        text = super().format_field(value, format_spec)
        self.length += len(text)
        current().fits(self.length)
        return text


def bounded_format(formatter: Callable[[], BoundedFormatter], text: str, mapping: bool) -> Callable[..., str]:
    """`text.format`, or `text.format_map`."""

    def run(*args: Any, **kwargs: Any) -> str:
        return formatter().vformat(text, () if mapping else args, args[0] if mapping else kwargs)

    return run
