"""Room for repacked weights: large pieces of memory on huge pages, filled one after the other.

A decode step reads every weight once. On pages of 4 KiB it waits for their addresses to be looked up nearly as long as for the bytes."""

from __future__ import annotations

import contextlib
import mmap
import threading
from typing import Any

import numpy as np

from vtcore.memory import ALIGNMENT, HOST, Held, Storage
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
        return Tensor(Storage.holding(nbytes, HOST, Held(self._room(nbytes), 0, {})), (nbytes,), np.dtype(np.uint8))

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


def forget(array: Array) -> None:
    """Tell the system that a part of a file, mapped to be read, won't be read soon: its pages stop counting as this process's memory."""
    owner: Any = array
    while owner is not None and not isinstance(owner, np.memmap):
        owner = getattr(owner, "base", None)
    if owner is None or owner.mode != "r" or not isinstance(owner.base, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = array.ctypes.data - np.frombuffer(owner.base, np.uint8).ctypes.data
    first, last = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE, (begin + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        owner.base.madvise(mmap.MADV_DONTNEED, first, last - first)
