"""Sums, products and caps, value by value. Axes broadcast by NumPy's rule where an op takes two arrays."""

from __future__ import annotations

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, sigmoid, wide
from vtcore.ops.inputs import nothing, nothing_wrong


@op("x[...]~, y[...]~ -> [...]", samples=nothing, errors=nothing_wrong)
def add(x: Array, y: Array) -> Array:
    """x + y. Of one shape, or one broadcast along the other: a bias [H], a column [T 1]."""
    return narrow(wide(x) + wide(y))


@op("x[...]~, y[...]~ -> [...]", samples=nothing, errors=nothing_wrong)
def mul(x: Array, y: Array) -> Array:
    """x * y. Of one shape, or one broadcast along the other."""
    return narrow(wide(x) * wide(y))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def scale(x: Array, factor: float) -> Array:
    """x * factor, the factor rounded to float32 first. x [...]."""
    return narrow(wide(x) * np.float64(np.float32(factor)))


@op("x[... A]~, y[... B]~ -> [... A+B]", samples=nothing, errors=nothing_wrong)
def concat(x: Array, y: Array) -> Array:
    """x and y joined on the last axis, [... A] and [... B] to [... A+B]; the other axes broadcast."""
    lead = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return narrow(np.concatenate([np.broadcast_to(narrow(a), (*lead, a.shape[-1])) for a in (x, y)], -1))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def softcap(x: Array, cap: float) -> Array:
    """cap * tanh(x / cap): nearly x while |x| is small, never beyond the cap. x [...]. Gemma 2, 2024."""
    return narrow(cap * np.tanh(wide(x) / cap))


@op("x[...]~, gate[...]~ -> [...]", samples=nothing, errors=nothing_wrong)
def sigmoid_mul(x: Array, gate: Array) -> Array:
    """x * sigmoid(gate). Of one shape, or one broadcast along the other: a gate for each head [T H 1]."""
    return narrow(wide(x) * sigmoid(wide(gate)))
