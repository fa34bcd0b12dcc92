"""What plain kernels are written with. In Python these functions work as they stand; Numba replaces `array`, `claim` and `root`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from vtcore.providers.portable.emit import COUNTER, TABLE_WORDS

Array = np.ndarray[Any, Any]
Helper = TypeVar("Helper", bound=Callable[..., Any])
HELPERS: list[Callable[..., Any]] = []
FLOAT, DOUBLE, BYTE, INT, UINT, LONG, ULONG = np.float32, np.float64, np.uint8, np.int32, np.uint32, np.int64, np.uint64


def helper(function: Helper) -> Helper:
    """Let kernels call a function."""
    HELPERS.append(function)
    return function


def array(address: int, size: int, dtype: Any) -> Array:
    """The memory at an address as an array."""
    nbytes = size * np.dtype(dtype).itemsize
    return np.ndarray((size,), dtype, (ctypes.c_char * nbytes).from_address(address))


def claim(table: int) -> int:
    """The number of the next task that no thread has taken."""
    counter = array(table + 8 * COUNTER, 1, LONG)
    counter[0] += 1
    return int(counter[0]) - 1


def root(x: float) -> float:
    """The square root of a number from 0 on."""
    return math.sqrt(x)


@helper
def words(table: int) -> Array:
    """The integers and addresses of a table."""
    return array(table, TABLE_WORDS, LONG)


@helper
def doubles(table: int) -> Array:
    """The same words, where they are of kind `:d`."""
    return array(table, TABLE_WORDS, DOUBLE)


@helper
def floats(address: int, row: int, width: int) -> Array:
    """One of contiguous float32 rows."""
    return array(address + 4 * row * width, width, FLOAT)


@helper
def copy(source: Array, target: Array) -> None:
    """target = source, of the same size."""
    for i in range(target.size):
        target[i] = source[i]
