"""Layouts: the same values with other strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vtcore.ops.inputs import cut, turned

Array = np.ndarray[Any, Any]


def like(array: Array) -> Array:
    """Room for other values in the same layout."""
    if not array.size:
        return array.copy()
    steps = [s // array.itemsize for s in array.strides]
    whole = np.zeros(sum((n - 1) * s for n, s in zip(array.shape, steps, strict=True)) + 1, array.dtype)
    return np.ndarray(array.shape, array.dtype, whole, 0, array.strides)


def _spaced(x: Array) -> Array:
    """Every second row of an array."""
    wide = np.zeros((2 * x.shape[0], *x.shape[1:]), x.dtype)
    wide[::2] = x
    return wide[::2]


def _cut(x: Array) -> Array:
    """The middle of wider rows."""
    if x.dtype.kind not in "iub":
        return cut(x)
    wide = np.zeros((*x.shape[:-1], x.shape[-1] + 8), x.dtype)
    wide[..., 3 : 3 + x.shape[-1]] = x
    return wide[..., 3 : 3 + x.shape[-1]]


LAYOUTS: dict[str, Callable[[Array], Array]] = {"plain": np.ascontiguousarray, "cut": _cut, "turned": turned, "spaced": _spaced}
