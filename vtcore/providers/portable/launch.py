"""A launch: fill a kernel's table, run one row on the team. A recorder sees every launch with the bytes that it reads and writes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from vtcore.providers.portable.emit import TABLE_WORDS
from vtcore.providers.portable.jit import Native
from vtcore.providers.portable.team import ROW, Team
from vtcore.quant.blocks import BlockFormat
from vtcore.storage import Storage
from vtcore.tensor import Tensor

Word = Tensor | int | float | None
Span = tuple[int, int]  # addresses, half open
ALIGNMENT = 128


@dataclass(frozen=True)
class Bound:
    """One launch that can be repeated: a kernel, its filled table, which bytes it reads and writes, and whether threads share it.

    Two of them can't run at the same time if one writes what the other touches."""

    native: Native
    table: tuple[int, ...]
    reads: tuple[Span, ...]
    writes: tuple[Span, ...]
    shared: bool


Sink = Callable[[Bound, list[Storage]], None]  # a launch, and what its addresses lie in


class Launcher:
    """Runs kernels one at a time; while `record` is on, it also hands each over as a Bound."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self._memory = np.zeros((TABLE_WORDS + ROW) * 8 + ALIGNMENT, np.uint8)
        start = -self._memory.ctypes.data % ALIGNMENT
        self._table: Any = self._memory[start : start + TABLE_WORDS * 8]
        self._row = self._memory[start + TABLE_WORDS * 8 :][: ROW * 8].view(np.int64)
        self._row[1], self._row[2] = self._memory.ctypes.data + start, 1
        self._row_view: Any = self._row.view(np.uint8)
        self._row_address = self._row.ctypes.data
        self._sink: Sink | None = None

    def __call__(self, native: Native, words: Sequence[Word], shared: bool = True) -> None:
        """Run one kernel, and wait until all that it writes is there. A task too small to share out is the caller's alone."""
        table = table_of(native, words)
        with self.team.lock:
            _packer(len(table)).pack_into(self._table, 0, *table)
            _ADDRESS.pack_into(self._row_view, 0, native.address)
            self.team.run(self._row_address, 1, None if shared else 1)
            if self._sink is not None:
                self._sink(bind(native, table, words, shared), [w.storage for w in words if isinstance(w, Tensor)])

    @property
    def recording(self) -> bool:
        """Whether launches are handed over at the moment."""
        return self._sink is not None

    @contextmanager
    def record(self, sink: Sink) -> Iterator[None]:
        """Hand over every launch inside, in order, besides running it."""
        before, self._sink = self._sink, sink
        try:
            yield
        finally:
            self._sink = before


def table_of(native: Native, words: Sequence[Word]) -> tuple[int, ...]:
    """The words of a table: addresses (0 for None), integers, the bits of floats."""
    table: list[Any] = [w if type(w) is int else w.address if isinstance(w, Tensor) else w or 0 for w in words]
    for i in native.floats:
        table[i] = _float_bits(table[i])
    for i in native.doubles:
        table[i] = _double_bits(table[i])
    return tuple(table)


def bind(native: Native, table: tuple[int, ...], words: Sequence[Word], shared: bool) -> Bound:
    """A launch with the bytes that it reads and writes."""
    reads, writes = (
        tuple(span(w) for i in which if isinstance(w := words[i], Tensor) and w.size) for which in (native.reads, native.writes)
    )
    return Bound(native, table, reads, writes, shared)


def span(tensor: Tensor) -> Span:
    """The addresses from the first byte of a view to behind its last."""
    low = sum(min(0, (n - 1) * s) for n, s in zip(tensor.shape, tensor.strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(tensor.shape, tensor.strides, strict=True))
    d = tensor.dtype
    block, nbytes = (d.block, d.nbytes) if isinstance(d, BlockFormat) else (1, d.itemsize)
    return tensor.address + low // block * nbytes, tensor.address + (high // block + 1) * nbytes


_ADDRESS = struct.Struct("q")


@cache
def _packer(words: int) -> struct.Struct:
    return struct.Struct(f"{words}q")


@lru_cache(4096)
def _float_bits(x: float) -> int:
    return int(np.float32(x).view(np.int32))


@lru_cache(4096)
def _double_bits(x: float) -> int:
    return int(np.float64(x).view(np.int64))
