"""Normalisation over the last axis."""

from __future__ import annotations

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import nothing, nothing_wrong


@op("x[... H], weight[H]? -> [... H]", samples=nothing, errors=nothing_wrong)
def rms_norm(x: Array, weight: Array | None, eps: float, offset: float = 0.0, groups: int = 1) -> Array:
    """x / sqrt(mean(x^2) + eps) * (offset + weight), the mean over each of `groups` equal parts of the last axis.

    x [... H], weight [H] or None (no factor); offset 1 for weights that are stored as a difference from one (Gemma).
    Root mean square layer normalization, Zhang and Sennrich, 2019."""
    return narrow(_rms(wide(x), weight, eps, offset, groups))


@op("x[... H], residual[... H], weight[H]? -> [... H], [... H]", samples=nothing, errors=nothing_wrong)
def add_rms_norm(x: Array, residual: Array, weight: Array | None, eps: float, offset: float = 0.0, groups: int = 1) -> tuple[Array, Array]:
    """The RMS norm of a sum, and the sum: s = x + residual, rounded to float32; (rms_norm(s, weight, eps, offset, groups), s).

    x and residual [... H]. What a pre-norm layer does between its blocks, in one pass."""
    total = narrow(wide(x) + wide(residual))
    return narrow(_rms(wide(total), weight, eps, offset, groups)), total


@op("x[... H], weight[H]?, bias[H]? -> [... H]", samples=nothing, errors=nothing_wrong)
def layer_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias over the last axis.

    x [... H], weight and bias [H] or None. Layer normalization, Ba, Kiros and Hinton, 2016."""
    rows = wide(x)
    rows = rows - np.mean(rows, -1, keepdims=True)
    rows = rows / np.sqrt(np.mean(rows * rows, -1, keepdims=True) + eps)
    rows = rows if weight is None else rows * wide(weight)
    return narrow(rows if bias is None else rows + wide(bias))


@op("x[... H] -> [... H]", samples=nothing, errors=nothing_wrong)
def l2_norm(x: Array, eps: float = 1e-6) -> Array:
    """x / sqrt(sum(x^2) + eps) over the last axis: the sum, not the mean. x [... H].

    The query and key norm of gated delta networks (Yang, Kautz and Hatamizadeh, 2024)."""
    rows = wide(x)
    return narrow(rows / np.sqrt((rows * rows).sum(-1, keepdims=True) + eps))


def _rms(rows: Array, weight: Array | None, eps: float, offset: float, groups: int) -> Array:
    parts = rows.reshape(*rows.shape[:-1], groups, rows.shape[-1] // groups)
    parts = parts / np.sqrt(np.mean(parts * parts, -1, keepdims=True) + eps)
    normed = parts.reshape(rows.shape)
    return normed if weight is None else normed * (offset + wide(weight))
