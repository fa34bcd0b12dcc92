"""How definitions compute: in float64, in one order for each row whatever rows stand beside it, and rounded once to float32.

So a definition is as near the truth as float32 can hold, and a row's result never depends on its neighbours, on threads or on strides."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.quant.blocks import Blocks, as_float32

Array = np.ndarray[Any, Any]
BLOCK = 1 << 17  # elements of a weight that are widened at a time: 1 MB


def wide(x: Array | Blocks) -> Array:
    """A C-contiguous float64 copy of a dense or quantised array."""
    return np.array(as_float32(x), np.float64, order="C")


def narrow(x: Array) -> Array:
    """A fresh C-contiguous float32 array: each value rounded to nearest, ties to even."""
    return np.array(x, np.float32, order="C")


def product(rows: Array, weight: Array | Blocks) -> Array:
    """rows [T K] times weight [N K] transposed, in float64 [T N]. One product a row; no BLAS, whose order may follow the row count."""
    out = np.zeros((len(rows), weight.shape[0]))
    step = max(1, BLOCK // max(1, weight.shape[1]))
    for begin in range(0, weight.shape[0], step):
        part = wide(weight[begin : begin + step])
        for t, row in enumerate(rows):
            out[t, begin : begin + step] = np.einsum("nk,k->n", part, row)
    return out


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) of float64; 0 and 1 at the infinities."""
    return 1 / (1 + np.exp(-x))


def shares(scores: Array, sinks: Array | float = -np.inf) -> Array:
    """exp(x) / (sum of exp(x) + exp(sink)) over the last axis of float64. Where every score is -inf, and the sink too, zeros."""
    top = np.maximum(scores.max(-1, keepdims=True, initial=-np.inf), sinks)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True) + np.exp(sinks - top)
    out: Array = weights / np.where(total == 0, 1, total)
    return out
