"""Room for repacked weights: large pieces of memory on huge pages, filled one after the other.

A decode step reads every weight once. On pages of 4 KiB it waits for their addresses to be looked up nearly as long as for the bytes."""

from __future__ import annotations

import contextlib
import mmap
import threading
from typing import Any

import numpy as np

from vtcore.memory import ALIGNMENT, HOST, Held
from vtcore.storage import Storage
from vtcore.tensor import Tensor

HUGE = 2 << 20  # bytes of a huge page
SLAB = 16 * HUGE

Array = np.ndarray[Any, Any]


class Slabs:
    """Hands out parts of the slab at hand. A slab goes when the last tensor in it does."""

    def __init__(self) -> None:
        self._slab: Array = np.zeros(0, np.uint8)
        self._used = 0
        self._lock = threading.Lock()

    def tensor(self, nbytes: int) -> Tensor:
        """Bytes of zero that live as long as this tensor."""
        return Tensor(Storage.holding(nbytes, HOST, Held(self._room(nbytes), 0, None)), (nbytes,), np.dtype(np.uint8))

    def _room(self, nbytes: int) -> Array:
        with self._lock:
            if nbytes > SLAB // 2:
                return _huge(nbytes)[:nbytes]
            if self._used + nbytes > self._slab.size:
                self._slab, self._used = _huge(SLAB), 0
            begin, self._used = self._used, self._used + -(-nbytes // ALIGNMENT) * ALIGNMENT
            return self._slab[begin : begin + nbytes]


def _huge(nbytes: int) -> Array:
    """Fresh memory that begins on a huge page; it is taken from the system where it is written."""
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    memory = mmap.mmap(-1, -(-nbytes // HUGE) * HUGE + HUGE, **private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, np.uint8)
    return whole[-whole.ctypes.data % HUGE :]
