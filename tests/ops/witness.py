"""What the tests of ops measure with: plain Python numbers, one at a time."""

from __future__ import annotations

import numpy as np


def within_one_ulp(got: np.ndarray, want) -> None:
    """Every float32 of `got` is a float64 `want` rounded, or next to it."""
    assert got.dtype == np.float32
    np.testing.assert_array_max_ulp(got, np.asarray(want, np.float64).astype(np.float32), maxulp=1)


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ints(*values) -> np.ndarray:
    return np.array(values, np.int32)
