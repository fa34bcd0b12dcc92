"""Where bytes live. A Memory allocates, moves and frees them."""

from __future__ import annotations

import sys
import threading
from typing import Any, NamedTuple

import numpy as np

from vtcore import system_pages
from vtcore.errors import OutOfMemoryError
from vtcore.pool import LARGE, Lasting, Pool, Scratch

Array = np.ndarray[Any, Any]
ALIGNMENT = 128
PAGED = 1 << 16  # bytes from which on a buffer begins with one of the system's pages


def references(buffer: Array) -> int:
    """How many objects refer to the array behind a buffer, with what looking takes."""
    return sys.getrefcount(buffer.base)


UNSEEN = references(np.empty(2, np.uint8)[1:])  # of a buffer that nobody else looks at


class Held(NamedTuple):
    """A piece of a memory: what the memory made, its size, the pool that it goes back to. None: it was not made here, and its size is 0."""

    buffer: Any
    nbytes: int
    pool: Pool | None


def rounded(nbytes: int, parts: int) -> int:
    """The size of a buffer for so many bytes: a power of two; if large, the next of so many parts of one, or (0) of 64 KiB."""
    if nbytes < LARGE:
        return max(256, 1 << (nbytes - 1).bit_length())
    step = (1 << nbytes.bit_length() - 1) // parts if parts else 1 << 16
    return -(-nbytes // step) * step


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
        self.home, self.lasting = Scratch(self._dropped), Lasting(self._dropped)
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

    def apart(self) -> Pool:
        """A pool for a capture's temporaries."""
        return Pool(self._dropped)

    def alloc(self, nbytes: int, zero: bool = False, scratch: bool = False) -> Held:
        """Room for `nbytes`. Weights, caches and uploads never take scratch: a replay writes over what a captured step gave back."""
        pool, size = (self.scratch, rounded(nbytes, 8)) if scratch else (self.lasting, rounded(nbytes, 0))
        if (taken := pool.take(size)) is None:
            buffer = self._fresh(size, zero)
            self.made += size
            pool.took(size)
        else:
            size, buffer = taken
            if zero:
                self._zero(buffer, size)
        self.live += size
        return Held(buffer, size, pool)

    def _fresh(self, size: int, zero: bool) -> Any:
        try:
            return self._make(size, zero)
        except (MemoryError, OutOfMemoryError):
            self.trim()
            return self._make(size, zero)

    def trim(self) -> None:
        """Give back what only waits to be used again."""
        self.home.clear()
        self.lasting.clear()
        self.synchronize()

    def release(self, held: Held) -> None:
        """Back to the pool that it came from."""
        self.live -= held.nbytes
        if held.pool is not None:
            held.pool.give(held.nbytes, held.buffer)

    def lose(self, held: Held) -> None:
        """A piece that may not be used again: somebody still looks at it, who has it for good."""
        self.live -= held.nbytes
        self.made -= held.nbytes
        if held.pool is not None:
            held.pool.give(held.nbytes, None)

    def _dropped(self, size: int, buffer: Any) -> None:
        self.made -= size
        self._unmake(buffer)

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

    def _unmake(self, buffer: Any) -> None:
        """Give a buffer back to the system, at the latest when what was enqueued is done: called by whatever thread, at any moment.
        Nothing is to be done where it goes with its last reference."""

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
        alignment = ALIGNMENT if size < PAGED else system_pages.SIZE
        raw = np.zeros(size + alignment, np.uint8)
        start = -raw.ctypes.data % alignment
        return raw[start : start + size]

    def release(self, held: Held) -> None:
        """Into the pool, unless somebody still looks at the bytes: every NumPy view of a buffer refers to the array behind it."""
        if held.buffer.base is not None and references(held.buffer) <= UNSEEN:
            super().release(held)
        else:
            self.lose(held)

    def _zero(self, buffer: Array, size: int) -> None:
        buffer[:] = 0

    def upload(self, held: Held, offset: int, host: Array) -> None:
        held.buffer[offset : offset + host.nbytes] = host

    def download(self, held: Held, offset: int, host: Array) -> None:
        host[:] = held.buffer[offset : offset + host.nbytes]

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        held.buffer[target : target + nbytes] = held.buffer[source : source + nbytes]


HOST = HostMemory()
