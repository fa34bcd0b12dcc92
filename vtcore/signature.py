"""An op's typed signature: axis names that bind sizes, checked on every bare call and used to work out the shapes of results.

    "x[... K], weight[N K]:w, bias[N]? -> [... N]"

`?` may be None; `*` after the brackets: a sequence of such arrays, or all in one with an axis more in front; `~` there: its `...`
broadcasts with that of the others, by NumPy's rule. After the colon the kind: f (the default) float32, float16 or bfloat16; i integers; b
bool; w float or quantised blocks; c of a cache: floats, 8-bit floats or int8. A result is float32 unless its kind is i (int32). `()`
means no result. An axis is a name, a number, an expression of names (A+B, 2*F) or once `...` for any number of axes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import ml_dtypes
import numpy as np

from vtcore.errors import OpError
from vtcore.quant.blocks import BlockFormat

Axes = tuple[str, ...]
Shape = tuple[int, ...]
FLOATS = frozenset(np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16))
EIGHT = frozenset(np.dtype(t) for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.int8))
KINDS = {
    "f": "float32, float16 or bfloat16",
    "i": "an integer type",
    "b": "bool",
    "w": "a float type or quantised blocks",
    "c": "float32, float16, bfloat16, float8_e4m3fn, float8_e5m2 or int8",
}
_ARGUMENT = re.compile(r"(\w+)\[([^\]]*)\]([*~]?)(?::([fibwc]))?(\??)$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_RESULT = re.compile(r"\[([^\]]*)\](?::([fibw]))?$")


@dataclass(frozen=True)
class Argument:
    """One array argument: its axes, its kind, and whether None or a sequence may stand there, or its `...` broadcasts."""

    name: str
    axes: Axes
    kind: str
    optional: bool
    many: bool
    broadcast: bool


@dataclass(frozen=True)
class Result:
    """One result: axes to work out from what the arguments bound, and its dtype."""

    axes: Axes
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Signature:
    """The arrays of an op by name, and its results in order."""

    text: str
    arguments: Mapping[str, Argument]
    results: tuple[Result, ...]

    @classmethod
    def parse(cls, text: str) -> Signature:
        left, right = (part.strip() for part in text.split("->"))
        arguments = {a.name: a for a in map(_argument, filter(None, left.split(", ")))}
        results = () if right == "()" else tuple(map(_result, right.split(", ")))
        return cls(text, arguments, results)

    def bind(self, op: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes of the axes for a call's arrays; OpError where an array doesn't fit."""
        sizes: dict[str, Any] = {}
        late: list[tuple[str, str, int]] = []
        for name, argument in self.arguments.items():
            value = call[name]
            if value is None and argument.optional:
                continue
            for array in _each(argument, value) if argument.many else (value,):
                _bind_one(op, argument, array, sizes, late)
        for name, axis, size in late:
            if (want := evaluate(axis, sizes)) != size:
                raise OpError(f"{op}: axis {axis} of {name} is {size}; it must be {want}, from {_known(sizes)}")
        return sizes

    def unbound(self) -> set[str]:
        """Names that axes are made of but that no array's axis is called: they must be numbers among the op's parameters."""
        parts: tuple[Argument | Result, ...] = (*self.arguments.values(), *self.results)
        axes = [axis for part in parts for axis in part.axes]
        bound = {axis for argument in self.arguments.values() for axis in argument.axes}
        return {name for axis in axes for name in _NAME.findall(axis)} - bound

    def shapes(self, sizes: Mapping[str, Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of every result."""
        return [(_shape(r.axes, sizes), r.dtype) for r in self.results]


def evaluate(axis: str, sizes: Mapping[str, Any]) -> int:
    """The size of an axis expression: names, numbers, + - * //."""
    if axis.isdigit():
        return int(axis)
    if (size := sizes.get(axis)) is not None:
        return int(size)
    return int(eval(axis, {"__builtins__": {}}, dict(sizes)))


def _argument(text: str) -> Argument:
    match = _ARGUMENT.match(text.strip())
    if match is None:
        raise ValueError(f"not an argument of an op's signature: {text!r}; write it as name[A B]:kind?")
    name, axes, mark, kind, optional = match.groups()
    return Argument(name, tuple(axes.split()), kind or "f", bool(optional), mark == "*", mark == "~")


def _result(text: str) -> Result:
    match = _RESULT.match(text.strip())
    if match is None:
        raise ValueError(f"not a result of an op's signature: {text!r}; write it as [A B]:kind")
    axes, kind = match.groups()
    return Result(tuple(axes.split()), np.dtype({"i": np.int32, "b": np.bool_}.get(kind, np.float32)))


def _bind_one(op: str, argument: Argument, array: Any, sizes: dict[str, Any], late: list[tuple[str, str, int]]) -> None:
    name, axes = argument.name, argument.axes
    shape = getattr(array, "shape", None)
    if shape is None or not hasattr(array, "dtype"):
        raise OpError(f"{op}: {name} is {type(array).__name__} {array!r:.40}; it must be an array [{' '.join(axes)}]")
    _check_kind(op, argument, array.dtype)
    if "..." in axes and len(shape) >= len(axes) - 1:
        begin = axes.index("...")
        end = len(shape) - (len(axes) - 1 - begin)
        _bind_dots(op, argument, shape, shape[begin:end], sizes)
        axes, shape = axes[:begin] + axes[begin + 1 :], shape[:begin] + shape[end:]
    if len(shape) != len(axes):
        raise OpError(f"{op}: {name} has shape {list(shape)}; it must have {_count(axes)} axes [{' '.join(axes)}]")
    for axis, size in zip(axes, shape, strict=True):
        if not axis.isidentifier():
            late.append((name, axis, size))
        elif sizes.setdefault(axis, size) != size:
            raise OpError(f"{op}: axis {axis} of {name} {list(array.shape)} is {size}; it must be {sizes[axis]}, from {_known(sizes)}")


def _bind_dots(op: str, argument: Argument, shape: Shape, dots: Shape, sizes: dict[str, Any]) -> None:
    known = sizes.setdefault("...", dots)
    if argument.broadcast:
        try:
            sizes["..."] = np.broadcast_shapes(known, dots)
        except ValueError:
            raise OpError(f"{op}: {argument.name} has shape {list(shape)}; its axes must broadcast with {list(known)}") from None
    elif known != dots:
        raise OpError(f"{op}: {argument.name} has shape {list(shape)}; the axes in place of ... must be {list(known)}")


def _each(argument: Argument, value: Any) -> Any:
    """The arrays of a sequence; of one array with an axis more, the first, which is like all."""
    if isinstance(value, (list, tuple)):
        return value
    stacked = len(getattr(value, "shape", ())) == len(argument.axes) + 1 and value.shape[0]
    return (value[0],) if stacked else (value,)


def _count(axes: Axes) -> str:
    return f"at least {len(axes) - 1}" if "..." in axes else str(len(axes))


def _check_kind(op: str, argument: Argument, dtype: Any) -> None:
    if isinstance(dtype, BlockFormat):
        ok = argument.kind == "w"
    else:
        ok = {"i": dtype.kind in "iu", "b": dtype.kind == "b"}.get(argument.kind, dtype in FLOATS)
        ok = ok or (argument.kind == "c" and dtype in EIGHT)
    if not ok:
        raise OpError(f"{op}: {argument.name} is {dtype}; it must be {KINDS[argument.kind]}")


def _shape(axes: Axes, sizes: Mapping[str, Any]) -> tuple[int, ...]:
    parts = (tuple(sizes["..."]) if axis == "..." else (evaluate(axis, sizes),) for axis in axes)
    return tuple(chain.from_iterable(parts))


def _known(sizes: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in sizes.items() if k != "...")
