"""Where bytes live. A Memory allocates, moves and frees them; a Storage knows in which memories its rows are true."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
ALIGNMENT = 128
TRUE = np.ones(1, bool)


def references(buffer: Array) -> int:
    """How many objects refer to the array behind a buffer, with what looking takes."""
    return sys.getrefcount(buffer.base)


UNSEEN = references(np.empty(2, np.uint8)[1:])  # of a buffer that nobody else looks at


class Held(NamedTuple):
    """A piece of a memory: what the memory made, its size, the pool that it goes back to."""

    buffer: Any
    nbytes: int
    pool: dict[int, list[Any]]


class Memory:
    """A place with one in-order queue: what is enqueued later sees what was enqueued before, so a buffer may be reused at once."""

    name = "memory"

    def __init__(self) -> None:
        self.home: dict[int, list[Any]] = {}
        self.scratch = self.home  # where kernels' outputs come from; a capture swaps in its own and keeps it
        self.made = self.live = 0

    def alloc(self, nbytes: int, zero: bool = False, scratch: bool = False) -> Held:
        """Room for `nbytes`. Weights, caches and uploads never take scratch: a replay writes over what a captured step gave back."""
        pool = self.scratch if scratch else self.home
        size = max(256, 1 << (nbytes - 1).bit_length()) if nbytes < 1 << 20 else -(-nbytes // 65536) * 65536
        free = pool.get(size)
        if free:
            buffer = free.pop()
            if zero:
                self._zero(buffer, size)
        else:
            buffer, self.made = self._make(size, zero), self.made + size
        self.live += size
        return Held(buffer, size, pool)

    def release(self, held: Held) -> None:
        """Back to the pool that it came from."""
        self.live -= held.nbytes
        held.pool.setdefault(held.nbytes, []).append(held.buffer)

    # What each memory does in its own way:

    def _make(self, size: int, zero: bool) -> Any:
        raise NotImplementedError(f"memory {self.name!r} doesn't say how room is made")

    def _zero(self, buffer: Any, size: int) -> None:
        raise NotImplementedError(f"memory {self.name!r} doesn't say how it is cleared")

    def upload(self, held: Held, offset: int, host: Array) -> None:
        """Copy the bytes of a host array here."""
        raise NotImplementedError(f"memory {self.name!r} doesn't say how bytes get there")

    def download(self, held: Held, offset: int, host: Array) -> None:
        """Copy bytes from here into a host array, and wait for them."""
        raise NotImplementedError(f"memory {self.name!r} doesn't say how bytes come back")

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        """Copy bytes within a piece, from one offset to another. Where a memory can do that by itself, it says so in its own way."""
        host = np.empty(nbytes, np.uint8)
        self.download(held, source, host)
        self.upload(held, target, host)

    def synchronize(self) -> None:
        """Wait until all that was enqueued is done."""


class HostMemory(Memory):
    """The host's: uint8 arrays at aligned addresses. Fresh ones are zero and cost no memory until they are written."""

    name = "host"

    def _make(self, size: int, zero: bool) -> Array:
        raw = np.zeros(size + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + size]

    def release(self, held: Held) -> None:
        """Into the pool, unless somebody still looks at the bytes: every NumPy view of a buffer refers to the array behind it."""
        if held.buffer.base is not None and references(held.buffer) <= UNSEEN:
            super().release(held)
        else:
            self.live -= held.nbytes
            self.made -= held.nbytes

    def _zero(self, buffer: Array, size: int) -> None:
        buffer[:] = 0

    def upload(self, held: Held, offset: int, host: Array) -> None:
        held.buffer[offset : offset + host.nbytes] = host

    def download(self, held: Held, offset: int, host: Array) -> None:
        host[:] = held.buffer[offset : offset + host.nbytes]

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        held.buffer[target : target + nbytes] = held.buffer[source : source + nbytes]


HOST = HostMemory()
Moved = Callable[["Storage", Memory, Memory, int, float], None]  # what went from where to where: bytes, and seconds of the host's


class Storage:
    """Bytes in `rows` equal parts (the pages or slots of a cache; else 1). valid[m][row]: the copy in memory m is true.

    A row that nobody has written is zeros, and is true in every copy as soon as the copy exists."""

    __slots__ = ("__weakref__", "_address", "copies", "forms", "nbytes", "rows", "valid", "written")

    def __init__(self, nbytes: int, rows: int = 1) -> None:
        self.nbytes, self.rows = nbytes, rows
        self.copies: dict[Memory, Held] = {}  # one that is there stays
        self._address = 0
        self.valid: dict[Memory, Array] = {}
        self.written = np.zeros(rows, bool)
        self.forms: dict[Hashable, Any] = {}  # what providers made of these bytes: kept as long as they are the same

    @classmethod
    def holding(cls, nbytes: int, memory: Memory, held: Held) -> Storage:
        """Bytes that are true in one memory."""
        storage = cls(nbytes)
        storage.copies[memory], storage.valid[memory] = held, TRUE.copy()
        storage.written = TRUE.copy()
        return storage

    @property
    def address(self) -> int:
        """Where the host's copy begins."""
        if not self._address:
            self._address = self.copies[HOST].buffer.__array_interface__["data"][0]
        return self._address

    def at(self, memory: Memory, which: Array | None = None, moved: Moved | None = None) -> Held:
        """The buffer in a memory, with the rows `which` (None: all) true there: copies what is missing, and reports it."""
        held = self.copies.get(memory)
        if held is not None and len(self.copies) == 1:  # the only copy is true
            return held
        if held is None:
            held = self.copies[memory] = memory.alloc(self.nbytes, zero=not self.written.all())
            self.valid[memory] = ~self.written
        valid = self.valid[memory]
        missing = np.flatnonzero(~valid) if which is None else which[~valid[which]]
        if len(missing):
            self._bring(memory, held, missing, moved)
            valid[missing] = True
        return held

    def _bring(self, memory: Memory, held: Held, missing: Array, moved: Moved | None) -> None:
        size, left = self.nbytes // self.rows, missing
        for source, true in list(self.valid.items()):
            mine, left = left[true[left]], left[~true[left]]
            for begin, end in runs(mine):
                span = slice(begin * size, end * size)
                host, began = self._host()[span], perf_counter()
                if source is not HOST:  # through the host, whose copy becomes true too
                    source.download(self.copies[source], span.start, host)
                    self.valid[HOST][begin:end] = True
                if memory is not HOST:
                    memory.upload(held, span.start, host)
                if moved:
                    moved(self, source, memory, span.stop - span.start, perf_counter() - began)
        assert not len(left), f"rows {left} are true nowhere"

    def _host(self) -> Array:
        if HOST not in self.copies:
            self.copies[HOST], self.valid[HOST] = HOST.alloc(self.nbytes, zero=not self.written.all()), ~self.written
        buffer: Array = self.copies[HOST].buffer
        return buffer

    def wrote(self, memory: Memory, which: Array | None = None) -> None:
        """The rows `which` were changed in this memory: every other copy of them is false now."""
        rows: Any = slice(None) if which is None else which
        for m, v in self.valid.items():
            v[rows] = m is memory
        self.written[rows] = True
        self.forms.clear()

    def copy_row(self, source: int, target: int) -> None:
        """Make a row what another is, wherever that one is true."""
        size = self.nbytes // self.rows
        for memory, held in self.copies.items():
            if self.valid[memory][source]:
                memory.copy(held, source * size, target * size, size)
            self.valid[memory][target] = self.valid[memory][source]
        self.written[target] = self.written[source]
        self.forms.clear()

    def read_row(self, row: int, out: Array) -> None:
        """Copy a row's bytes out, uint8 [nbytes / rows], from a memory where it is true."""
        source = next((m for m, true in self.valid.items() if true[row]), None)
        if source is None:
            out[:] = 0  # nobody has written it
        else:
            source.download(self.copies[source], row * out.nbytes, out)

    def write_row(self, row: int, data: Array) -> None:
        """Make a row these bytes, in every memory that has a copy, and in the host's where none has."""
        if not self.copies:
            self._host()
        for memory, held in self.copies.items():
            memory.upload(held, row * data.nbytes, data)
            self.valid[memory][row] = True
        self.written[row] = True
        self.forms.clear()

    def __del__(self) -> None:
        for memory, held in self.copies.items():
            memory.release(held)


def runs(index: Array) -> list[tuple[int, int]]:
    """Sorted indices as half-open runs."""
    if not len(index):
        return []
    cuts = np.flatnonzero(np.diff(index) != 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(index, cuts)]
