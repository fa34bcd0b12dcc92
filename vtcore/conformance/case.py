"""A case: one op with one call of its samples, and its arrays laid out as Tensors."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from zlib import crc32

import numpy as np

from vtcore import tensor
from vtcore.op import Call, Op
from vtcore.quant.blocks import Blocks
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]


Source = Literal["sample", "fresh", "drawn", "saved"]
MARKS = {"sample": "", "fresh": "fresh", "drawn": "drawn", "saved": "saved"}


@dataclass(frozen=True, eq=False, repr=False)
class Case:
    """One call, with every argument by name. `seed` and `number` name it: the number-th that its source draws from the seed."""

    op: Op
    call: Call
    seed: int
    number: int
    source: Source = "sample"

    @property
    def label(self) -> str:
        """What it is called in reports and in lists of known gaps: rms_norm#3, rms_norm#drawn7."""
        return f"{self.op.name}#{MARKS[self.source]}{self.number}"

    def __repr__(self) -> str:
        defaults = self.op.parameters
        given = {n: v for n, v in self.call.items() if defaults[n] is inspect.Parameter.empty or not _is(v, defaults[n])}
        return f"{self.op.name}({', '.join(f'{n}={_shown(v)}' for n, v in given.items())})"


def cases(op: Op, seed: int = 0) -> Iterator[Case]:
    """Every sample of an op, always the same for a seed."""
    rng = np.random.default_rng([seed, crc32(op.name.encode())])
    for number, call in enumerate(op.samples(rng)):
        yield Case(op, op.bind(**call), seed, number)


def _is(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, (bool, int, float, str)) and type(value) is type(default) and value == default)


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    if not isinstance(value, (np.ndarray, Blocks)):
        return repr(value)
    strides = ""
    if isinstance(value, np.ndarray) and value.size and not value.flags.c_contiguous:
        strides = f" by {' '.join(str(s // value.itemsize) for s in value.strides)}"
    return f"{value.dtype}[{' '.join(map(str, value.shape))}{strides}]"


class Laid:
    """An array as a Tensor of the same strides over a storage of its own. Between what it shows lies NaN, or the smallest integer."""

    def __init__(self, array: Array, pages: bool) -> None:
        steps = tuple(s // array.itemsize for s in array.strides) if array.size else tensor.steps(array.shape)
        ends = sum((n - 1) * s for n, s in zip(array.shape, steps, strict=True)) + 1 if array.size else 0
        whole = max(array.shape[0] * steps[0], ends) if pages else ends
        self.before = np.full(whole, _poison(array.dtype), array.dtype)
        self.tensor = Tensor(tensor.of(self.before.copy()).storage, array.shape, array.dtype, steps)
        self.shown(self.before)[...] = self.shown(self.tensor_whole())[...] = array
        if pages:
            _by_pages(self.tensor)

    def shown(self, whole: Array) -> Array:
        """What the Tensor shows of such a storage."""
        size = whole.itemsize
        return np.ndarray(self.tensor.shape, whole.dtype, whole, 0, tuple(s * size for s in self.tensor.strides))

    def tensor_whole(self) -> Array:
        """The storage as it is now."""
        whole: Array = Tensor(self.tensor.storage, self.before.shape, self.tensor.dtype).numpy()
        return whole

    def changed(self, written: bool) -> bool:
        """Whether something else than what may be written was."""
        after = self.tensor_whole().copy()
        if written:
            self.shown(after)[...] = self.shown(self.before)
        return after.tobytes() != self.before.tobytes()


def laid(case: Case) -> dict[str, Any]:
    """The arguments of a call: arrays as Laid, quantised arrays as Tensors, anything else as it is."""
    return {n: _laid(v, n in case.op.touches) for n, v in case.call.items()}


def _laid(value: Any, pages: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_laid(v, pages) for v in value)
    if isinstance(value, Blocks):
        return tensor.of(value)
    return Laid(value, pages) if isinstance(value, np.ndarray) else value


def as_tensors(value: Any) -> Any:
    """What `laid` gave as an op takes it."""
    if isinstance(value, (list, tuple)):
        return type(value)(as_tensors(v) for v in value)
    return value.tensor if isinstance(value, Laid) else value


def _poison(dtype: np.dtype[Any]) -> Any:
    return {"i": lambda: np.iinfo(dtype).min, "u": lambda: 0, "b": lambda: False}.get(dtype.kind, lambda: np.nan)()


def _by_pages(paged: Tensor) -> None:
    """Each page has a truth of its own, as in a cache."""
    storage, rows = paged.storage, paged.shape[0]
    storage.rows, storage.written = rows, np.ones(rows, bool)
    storage.valid = {m: np.ones(rows, bool) for m in storage.valid}
