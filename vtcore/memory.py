"""Where bytes live. A Memory allocates, moves and frees them."""

from __future__ import annotations

import sys
import threading
from typing import Any, NamedTuple

import numpy as np

from vtcore import system_pages

Array = np.ndarray[Any, Any]
Pool = dict[int, list[Any]]  # buffers that wait for use, by size
ALIGNMENT = 128
LARGE = 1 << 16  # bytes from which on a buffer begins with one of the system's pages


def references(buffer: Array) -> int:
    """How many objects refer to the array behind a buffer, with what looking takes."""
    return sys.getrefcount(buffer.base)


UNSEEN = references(np.empty(2, np.uint8)[1:])  # of a buffer that nobody else looks at


class Held(NamedTuple):
    """A piece of a memory: what the memory made, its size, the pool that it goes back to."""

    buffer: Any
    nbytes: int
    pool: Pool


class Captured(threading.local):
    """The pool of a capture that this thread makes: others compute beside it, on the same memory."""

    pool: Pool | None = None


class Memory:
    """A place with one in-order queue: what is enqueued later sees what was enqueued before, so a buffer may be reused at once."""

    name = "memory"
    shares = False  # whether its pieces may be the host's own bytes
    capacity: int | None = None  # bytes that it holds in all; None: it is the host's, or doesn't say
    gives_back = False  # whether rows of a storage can cost nothing once they are not needed

    def __init__(self) -> None:
        self.home: Pool = {}
        self._captured = Captured()
        self.made = self.live = 0

    @property
    def scratch(self) -> Pool:
        """Where kernels' outputs come from. A capture swaps in its own and keeps it, for its thread; None: home again."""
        pool = self._captured.pool
        return self.home if pool is None else pool

    @scratch.setter
    def scratch(self, pool: Pool | None) -> None:
        self._captured.pool = pool

    def alloc(self, nbytes: int, zero: bool = False, scratch: bool = False) -> Held:
        """Room for `nbytes`. Weights, caches and uploads never take scratch: a replay writes over what a captured step gave back."""
        pool = self.scratch if scratch else self.home
        size = max(256, 1 << (nbytes - 1).bit_length()) if nbytes < 1 << 20 else -(-nbytes // 65536) * 65536
        try:
            buffer = pool[size].pop()
        except LookupError:
            buffer, self.made = self._make(size, zero), self.made + size
        else:
            if zero:
                self._zero(buffer, size)
        self.live += size
        return Held(buffer, size, pool)

    def release(self, held: Held) -> None:
        """Back to the pool that it came from."""
        self.live -= held.nbytes
        held.pool.setdefault(held.nbytes, []).append(held.buffer)

    # Where the host and a device share one memory, nothing is copied between them:

    def view(self, held: Held) -> Array | None:
        """A piece's bytes as the host sees them once `synchronize` has returned; None where only copies come to the host."""
        return None

    def place(self, held: Held) -> Any:
        """What is the same object for two pieces of the same bytes, one given back and the other given out after it."""
        return held.buffer

    def adopt(self, host: Array) -> Held | None:
        """A host array's own bytes as a piece of this memory; None where that can't be. It goes back to no pool."""
        return None

    def synchronize(self) -> None:
        """Wait until all that was enqueued is done."""

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


class HostMemory(Memory):
    """The host's: uint8 arrays at aligned addresses. Fresh ones are zero and cost no memory until they are written."""

    name = "host"
    gives_back = system_pages.POSSIBLE

    def _make(self, size: int, zero: bool) -> Array:
        return self.fresh(size)

    @staticmethod
    def fresh(size: int) -> Array:
        """Zeros that are aligned, of an array of their own."""
        alignment = ALIGNMENT if size < LARGE else system_pages.SIZE
        raw = np.zeros(size + alignment, np.uint8)
        start = -raw.ctypes.data % alignment
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
