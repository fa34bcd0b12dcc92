"""Where a checkpoint keeps what a forward reads, and what must be done to it once, at load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vtcore.models.config import ModelConfig
from vtcore.quant.blocks import Blocks, as_float32

Numbers = np.ndarray[Any, Any]
Host = Numbers | Blocks


@dataclass(frozen=True)
class Rows:
    """A fix that picks or reorders whole rows. What it takes stays as it is stored: quantised, and mapped where the rows are neighbours."""

    pick: Callable[[Numbers, ModelConfig], Numbers]  # (numbers of all rows, the layer's config) -> numbers of the rows wanted
    axis: int = 0

    def __call__(self, value: Host, config: ModelConfig) -> Host:
        index = self.pick(np.arange(value.shape[self.axis]), config)
        first, count = (int(index[0]), len(index)) if len(index) else (0, 0)
        if np.array_equal(index, np.arange(first, first + count)):
            return value[(slice(None),) * self.axis + (slice(first, first + count),)]
        if is_outline(value):
            return outline((*value.shape[: self.axis], count, *value.shape[self.axis + 1 :]), value.dtype)
        return value[(slice(None),) * self.axis + (index,)]


@dataclass(frozen=True)
class Values:
    """A fix that computes with the numbers, in float32: a quantised tensor loses its format, which the model notes."""

    change: Callable[[Numbers, ModelConfig], Numbers]

    def __call__(self, value: Host, config: ModelConfig) -> Host:
        if is_outline(value):
            return self.change(_dense_outline(value), config)
        return np.ascontiguousarray(self.change(as_float32(value), config))


@dataclass(frozen=True)
class Turned:
    """A fix for a matrix that is stored with its input axis first; then perhaps for its rows. Dense only; the dtype stays."""

    then: Rows | None = None

    def __call__(self, value: Host, config: ModelConfig) -> Host:
        if isinstance(value, Blocks):
            raise ValueError("a quantised matrix can't be transposed")
        turned: Host = outline(value.shape[::-1], value.dtype) if is_outline(value) else value.T
        turned = self.then(turned, config) if self.then else turned
        return turned if is_outline(turned) else np.ascontiguousarray(turned)


@dataclass(frozen=True)
class Facing:
    """A fix for a matrix that some checkpoints turn and others don't: turned if its last axis is not the input's, then cut by rows."""

    inputs: str  # the config's name for the size of the input
    then: Rows | None = None

    def __call__(self, value: Host, config: ModelConfig) -> Host:
        if value.shape[-1] != getattr(config, self.inputs):
            return Turned(self.then)(value, config)
        return self.then(value, config) if self.then else value


@dataclass(frozen=True)
class Below:
    """No fix but a check, of a table of whole numbers that point at something; the values stay as they are."""

    most: str  # the config's name for how many of these there are

    def __call__(self, value: Host, config: ModelConfig) -> Host:
        if isinstance(value, Blocks) or is_outline(value) or not value.size:
            return value
        count, low, high = int(getattr(config, self.most)), value.min(), value.max()
        if not 0 <= low <= high < count:
            raise ValueError(f"it holds numbers from {low} to {high}; they must be from 0 to {count - 1}, by the config's {self.most}")
        return value


Fix = Rows | Values | Turned | Facing | Below


@dataclass(frozen=True)
class Stored:
    """A path in the checkpoint (without the layer's prefix and without `.weight`), and how its tensor becomes what the forward reads.

    A path with {} stands for several tensors, numbered from 0, which are stacked."""

    path: str
    fix: Fix | None = None
    both: bool = False  # the bias is fixed in the same way
    bare: bool = False  # an array, whatever its name ends in


class StoredExperts(Stored):
    """The same matrix of every expert: a path with {} stands for one tensor each, another for one tensor [E, ...]. The fix is one of each
    expert's matrix."""


Names = dict[str, Stored | str]


@dataclass(frozen=True)
class Dialect:
    """One spelling of a family's checkpoints: its tables of names, or the same tables with paths and fixes replaced."""

    top: Names
    names: Names
    prefix: str  # with {}: the layer's number
    paths: Mapping[str, str] = field(default_factory=dict)  # by the forward's name, or by the path that they stand for
    fixes: Mapping[str, Fix | None] = field(default_factory=dict)  # by the forward's name
    done: frozenset[Fix] = frozenset()  # fixes that whoever wrote this spelling has made already
    root: str = ""  # where the model is a part of a larger one, how its own tensors' names begin

    def find(self, name: str, table: Names) -> Stored:
        """Where the weight is that a forward calls `name`."""
        entry = table.get(name, name)
        stored = entry if isinstance(entry, Stored) else Stored(entry)
        stored = replace(stored, path=self.paths.get(name) or self.paths.get(stored.path, stored.path))
        if name in self.fixes:
            return replace(stored, fix=self.fixes[name], both=True)
        return replace(stored, fix=None) if stored.fix in self.done else stored


def outline(shape: tuple[int, ...], dtype: Any) -> Host:
    """The shape and dtype of a tensor over no memory, to see what fixes make of it without reading it."""
    if isinstance(dtype, np.dtype):
        return np.broadcast_to(np.zeros((), dtype), shape)
    return Blocks(np.broadcast_to(np.uint8(0), (*shape[:-1], dtype.row_bytes(shape[-1]))), dtype)


def _dense_outline(value: Host) -> Numbers:
    return np.broadcast_to(np.float32(0), value.shape)


def is_outline(value: Host) -> bool:
    """Whether a value came from `outline`, perhaps through views."""
    data = value.data if isinstance(value, Blocks) else value
    return data.ndim > 0 and not any(data.strides)
