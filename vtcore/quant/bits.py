"""Small fields out of bytes, in the orders that ggml packs them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def fields(packed: Array, bits: int) -> Array:
    """uint8 [..., n] -> uint8 [..., 8 / bits, n]: the lowest field of every byte, then the next of every byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return (packed[..., None, :] >> shifts[:, None]) & np.uint8((1 << bits) - 1)


def numbers(packed: Array, bits: int) -> Array:
    """uint8 [..., n] -> uint8 [..., n * 8 / bits]: the fields of the first byte, lowest first, then those of the next."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


def words(raw: Array, dtype: str) -> Array:
    """uint8 [..., n] -> the little-endian numbers that the bytes spell, [..., n / size]."""
    return np.ascontiguousarray(raw).view(np.dtype(dtype).newbyteorder("<"))


def half(raw: Array) -> Array:
    """uint8 [..., 2 n] -> the float16 numbers that the bytes spell, in float32 [..., n]; subnormals, infinities and NaN as they are."""
    return words(raw, "f2").astype(np.float32)
