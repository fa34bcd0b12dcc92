"""Variations of a call: other sizes of its axes, dtypes, layouts, numbers and values, each of a kind that the op's samples hold.

What an op's rules don't allow is put back, so that a variation of a valid call is valid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.layout import LAYOUTS, like
from vtcore.errors import OpError
from vtcore.op import Call, Op
from vtcore.ops.inputs import UNSEEN
from vtcore.quant.blocks import BlockFormat, Blocks
from vtcore.signature import Argument, evaluate

Array = np.ndarray[Any, Any]
Choice = TypeVar("Choice")
NAME = re.compile(r"[A-Za-z_]\w*")
ROOM = 1 << 14  # elements of the largest array: above that a size is put back
ROWS = ("T", "R")  # axes of tokens and requests, of which there may be none
OFTEN = ("plain",) * 9  # for each array of a call, so that most calls have few odd ones
SPECIAL = (np.nan, np.inf, -np.inf)


class Choices(Protocol):
    """Who decides: a generator, or hypothesis."""

    def pick(self, options: Sequence[Choice]) -> Choice:
        """One of them; the first is the simplest."""
        ...

    def integer(self, low: int, high: int) -> int:
        """One of low to high; the smallest is the simplest."""
        ...


class Random:
    """Choices by a generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, options: Sequence[Choice]) -> Choice:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))


class Variation:
    """A call of an op that is changed step by step, and stays one that the op takes."""

    def __init__(self, op: Op, samples: Sequence[Case], choices: Choices) -> None:
        self.op, self.samples, self.choices = op, samples, choices
        self.call = dict(choices.pick(samples).call)

    def taken(self, changes: Call) -> bool:
        """Make changes if the op takes the call with them."""
        call = self.call | changes
        try:
            self.op.validate(call)
        except OpError:
            return False
        self.call = call
        return True

    def sizes(self, smallest: int, largest: int) -> None:
        """Every axis another size, where that is allowed."""
        bound = self.op.signature.bind(self.op.name, self.call)
        for axis in self.axes():
            if axis in bound or axis.startswith("..."):
                least = smallest if axis in ROWS or axis.startswith("...") else max(1, smallest)
                self.resize(axis, self.choices.integer(least, largest))

    def resize(self, axis: str, size: int) -> None:
        """One axis another size: values repeat, or the last ones go. `...0` is the first of the axes in place of `...`."""
        bound = self.op.signature.bind(self.op.name, self.call)
        new = _resized(bound, axis, self._blocks_of(axis, size))
        changes = {}
        for name, argument in self.op.signature.arguments.items():
            changes[name] = _each(self.call[name], lambda v, a=argument: _fitted(v, a, bound, new))
        if "starts" in changes and isinstance(changes["starts"], np.ndarray):  # the borders of runs of rows: never falling, up to T
            changes["starts"] = np.minimum(np.maximum.accumulate(changes["starts"]), int(new.get("T", 1 << 30))).astype(np.int32)
        if all(_small(v) for v in changes.values()):
            self.taken(changes)

    def scalars(self) -> None:
        """Numbers and absent arguments as other samples have them, or numbers near these."""
        for name in self.op.parameters:
            argument = self.op.signature.arguments.get(name)
            if argument is None or argument.optional:
                value = self.choices.pick(self.samples).call[name]
                if argument is None or value is None:
                    self.taken({name: self._near(value)})

    def _near(self, value: Any) -> Any:
        if type(value) is int:
            return value + self.choices.integer(0, 3)
        return value * self.choices.pick((1.0, 0.75, 1.25)) if type(value) is float else value

    def dtypes(self) -> None:
        """Float arrays of other widths, of those that samples hold."""
        for name, array in self.floats():
            seen = {str(v.dtype): v.dtype for s in self.samples if isinstance(v := s.call[name], np.ndarray)}
            dtype = seen[self.choices.pick(sorted(seen, key=_width))]
            self.taken({name: array.astype(dtype)})

    def layouts(self, kinds: Sequence[str] = (*OFTEN, "cut", "turned", "spaced")) -> None:
        """Arrays with other strides."""
        for name, value in list(self.call.items()):
            allowed = [k for k in kinds if k in ("plain", "cut") or name not in self.op.touches]  # pages lie one behind the other
            if isinstance(value, np.ndarray) and value.ndim and allowed:
                self.taken({name: LAYOUTS[self.choices.pick(allowed)](value)})

    def values(self) -> None:
        """Floats mixed anew, of those that stand in this argument of any sample."""
        rng = np.random.default_rng(self.choices.integer(0, 1 << 16))
        style = self.choices.pick(("own", "repeated", "seen"))
        for name, array in self.floats():
            pool = _pool(self.samples if style == "seen" else [], name, array)
            pool = pool[np.abs(pool.astype(np.float32)) < UNSEEN] if name in self.op.touches else pool
            out = like(array)
            if len(pool):
                out[...] = pool[0] if style == "repeated" else rng.choice(pool, array.shape)
                self.taken({name: out})

    def special(self, value: float) -> bool:
        """NaN or an infinity somewhere in one of the float arrays."""
        if np.isinf(value) and any(isinstance(v, Blocks) for c in self.call.values() for v in _flat(c)):
            return False  # scale * code * inf - offset * inf: a kernel that takes blocks apart rightly gives NaN
        for name, array in self.floats():
            if not array.size:
                continue
            out = like(array)
            out[...] = array
            out[np.unravel_index(self.choices.integer(0, array.size - 1), array.shape)] = value
            if self.taken({name: out}):
                return True
        return False

    def floats(self) -> list[tuple[str, Array]]:
        """The float arrays by name."""
        return [(n, v) for n, v in self.call.items() if isinstance(v, np.ndarray) and v.dtype.kind not in "iub"]

    def axes(self) -> list[str]:
        """Every axis that has a name, and those in place of `...` by number."""
        named = [axis for a in self.op.signature.arguments.values() for axis in a.axes]
        dots = len(self.op.signature.bind(self.op.name, self.call).get("...", ()))
        return [*dict.fromkeys(axis for axis in named if axis.isidentifier()), *(f"...{i}" for i in range(dots))]

    def _blocks_of(self, axis: str, size: int) -> int:
        """A size that whole blocks fill, where the last axis of a quantised array is meant."""
        for name, argument in self.op.signature.arguments.items():
            for value in _flat(self.call[name]):
                if isinstance(value.dtype, BlockFormat) and argument.axes[-1] == axis:
                    size = -(-size // value.dtype.block) * value.dtype.block
        return size


def _resized(bound: dict[str, Any], axis: str, size: int) -> dict[str, Any]:
    if not axis.startswith("..."):
        return bound | {axis: size}
    dots = list(bound["..."])
    dots[int(axis[3:])] = size
    return bound | {"...": tuple(dots)}


def _fitted(value: Any, argument: Argument, old: dict[str, Any], new: dict[str, Any]) -> Any:
    """An array with each of its axes as long as the new sizes say."""
    extra = value.ndim - len(argument.axes) if "..." not in argument.axes else 0  # of many arrays in one, the first axis counts them
    for place, (before, after) in enumerate(_lengths(value, argument, old, new), start=max(extra, 0)):
        if before != after and value.shape[place] == before:
            value = _longer(value, place, after)
    return value


def _lengths(value: Any, argument: Argument, old: dict[str, Any], new: dict[str, Any]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    dots = value.ndim - len(argument.axes) + 1
    for axis in argument.axes:
        if axis == "...":
            out += zip(old["..."][len(old["..."]) - dots :], new["..."][len(new["..."]) - dots :], strict=True)
        elif NAME.findall(axis) and set(NAME.findall(axis)) <= old.keys():
            out.append((evaluate(axis, old), evaluate(axis, new)))
        else:
            out.append((0, 0))
    return out


def _longer(value: Any, place: int, size: int) -> Any:
    if isinstance(value, Blocks) and place == value.ndim - 1:
        rows = value.data.reshape(*value.data.shape[:-1], -1, value.dtype.nbytes)
        picked = np.take(rows, np.arange(size // value.dtype.block) % max(1, rows.shape[-2]), axis=-2)
        return Blocks(picked.reshape(*value.data.shape[:-1], -1), value.dtype)
    array = value.data if isinstance(value, Blocks) else value
    if array.shape[place] == 0:
        return value
    taken = np.take(array, np.arange(size) % array.shape[place], axis=place)
    return Blocks(taken, value.dtype) if isinstance(value, Blocks) else taken


def _pool(samples: Sequence[Case], name: str, array: Array) -> Array:
    """What an array's values are chosen from: its own, or those of this argument in all samples."""
    arrays = [s.call[name] for s in samples if isinstance(s.call[name], np.ndarray) and s.call[name].size]
    return np.concatenate([a.astype(array.dtype).reshape(-1)[:4096] for a in (array, *arrays)])


def _width(dtype: str) -> tuple[bool, str]:
    return dtype != "float32", dtype


def _small(value: Any) -> bool:
    return all(np.prod(v.shape, dtype=np.int64) <= ROOM for v in _flat(value))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [v for part in value for v in _flat(part)]
    return [value] if isinstance(value, (np.ndarray, Blocks)) else []


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_each(v, change) for v in value)
    return change(value) if isinstance(value, (np.ndarray, Blocks)) else value
