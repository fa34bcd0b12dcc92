"""The system's own pages behind the host's memory: a fresh one costs nothing until it is written, and a written one can be given back."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any

SIZE = mmap.PAGESIZE
POSSIBLE = sys.platform == "linux"  # elsewhere the system takes such pages when it likes, and not when it is told


def give_back(address: int, nbytes: int) -> None:
    """The pages that lie wholly within these bytes cost nothing any more, and are zeros."""
    _advise(address, nbytes, mmap.MADV_DONTNEED)


def keep_small(address: int, nbytes: int) -> None:
    """No pages of a larger size here: writing one byte would cost megabytes, and giving back a few would not free them."""
    _advise(address, nbytes, mmap.MADV_NOHUGEPAGE)


def _advise(address: int, nbytes: int, what: int) -> None:
    begin, end = -(-address // SIZE) * SIZE, (address + nbytes) // SIZE * SIZE
    if begin < end:
        _library().madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), what)  # advice: where it is refused, memory stays


@cache
def _library() -> Any:
    return ctypes.CDLL(None)
