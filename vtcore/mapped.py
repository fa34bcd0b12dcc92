"""Files that are mapped to be read: what won't be needed soon is given back to the system."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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
