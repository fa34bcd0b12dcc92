"""Arguments to time calls with: many sets in memory of their own, each filled with new values before every round."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from vtcore import tensor
from vtcore.available import available_memory
from vtcore.bench.machine import largest_cache
from vtcore.bench.op_calls import arrays_of, other, weights_of
from vtcore.memory import HOST
from vtcore.op import Call, Op
from vtcore.quant.blocks import Blocks
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
SETS = 64
OVER = 4  # times the largest cache: what all sets take together, if memory allows
CACHE = 32 << 20  # bytes, where the system doesn't say


class Inputs:
    """A call's arguments `count` times, each in memory of its own. `values(round, number)` says what is in them: it can be asked later."""

    def __init__(self, op: Op, base: Call, count: int) -> None:
        self.op, self.base, self.count, self.round = op, base, count, 0
        self.constant = weights_of(op)
        self.calls = [{n: _placed(v) for n, v in self.values(0, i).items()} for i in range(count)]

    def values(self, round_: int, number: int) -> Call:
        """Bare arrays. Weights are those of the set; everything else is new each round."""
        return {n: self._value(n, round_, number) for n in self.base}

    def _value(self, name: str, round_: int, number: int) -> Any:
        seed = [crc32(name.encode()), number, 0 if name in self.constant else round_]
        return other(self.op, name, self.base[name], self.base, np.random.default_rng(seed))

    def renew(self) -> None:
        """The next round's values, in the same memory."""
        self.round += 1
        for i, call in enumerate(self.calls):
            for name in self.base.keys() - self.constant:
                _write(call[name], self._value(name, self.round, i))


def sets_for(base: Call) -> int:
    """How many sets of inputs: so many that they overflow the largest cache OVER times, at least 2, and no more than fit."""
    size = max(1, _nbytes(base))
    wanted = -(-OVER * (largest_cache() or CACHE) // size)
    free = available_memory()
    return max(2, min(wanted, SETS, SETS if free is None else free // 8 // size))


def cold(base: Call, count: int) -> bool:
    """Whether so many sets are at least twice the largest cache, so that each call reads memory."""
    return count * _nbytes(base) >= 2 * (largest_cache() or CACHE)


def _placed(value: Any) -> Any:
    """An array as a Tensor of the same strides in memory of its own; lists of them; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(_placed(v) for v in value)
    if isinstance(value, Blocks):
        return tensor.of(Blocks(value.data.copy(), value.dtype))
    if not isinstance(value, np.ndarray):
        return value
    if not value.size or value.flags.c_contiguous:
        return tensor.of(value.copy())
    steps = tuple(s // value.itemsize for s in value.strides)
    room = np.zeros(sum((n - 1) * s for n, s in zip(value.shape, steps, strict=True)) + 1, value.dtype)
    placed = Tensor(tensor.of(room).storage, value.shape, value.dtype, steps)
    placed.numpy()[...] = value
    return placed


def _write(target: Any, value: Any) -> None:
    """New values into the memory that an argument has."""
    if isinstance(target, (list, tuple)):
        for t, v in zip(target, value, strict=True):
            _write(t, v)
    elif isinstance(target, Tensor):
        shown = target.numpy()
        if isinstance(shown, Blocks):
            shown.data[...] = value.data
        else:
            shown[...] = value
        target.storage.wrote(HOST)


def _nbytes(call: Call) -> int:
    return sum(int(a.nbytes) for value in call.values() for a in arrays_of(value))
