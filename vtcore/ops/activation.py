"""Activations, and the gated ones between a multilayer perceptron's projections (GLU variants improve transformer, Shazeer, 2020)."""

from __future__ import annotations

import math

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, sigmoid, wide
from vtcore.ops.inputs import nothing, nothing_wrong


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def silu(x: Array) -> Array:
    """x * sigmoid(x). x [...]. Elfwing, Uchibe and Doya, 2017."""
    return narrow(_silu(wide(x)))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def gelu(x: Array) -> Array:
    """x * the normal distribution's share below x: x / 2 * (1 + erf(x / sqrt(2))). x [...]. Hendrycks and Gimpel, 2016."""
    return narrow(_gelu(wide(x)))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def gelu_tanh(x: Array) -> Array:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))): gelu, approximated. x [...]. Hendrycks and Gimpel, 2016."""
    return narrow(_gelu_tanh(wide(x)))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def quick_gelu(x: Array) -> Array:
    """x * sigmoid(1.702 x). x [...]. Hendrycks and Gimpel, 2016."""
    return narrow(_quick_gelu(wide(x)))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def relu(x: Array) -> Array:
    """max(x, 0). x [...]."""
    return narrow(np.maximum(wide(x), 0))


@op("x[...] -> [...]", samples=nothing, errors=nothing_wrong)
def relu_squared(x: Array) -> Array:
    """max(x, 0)^2. x [...]. Primer, So and others, 2021."""
    return narrow(np.maximum(wide(x), 0) ** 2)


@op("gate[...], up[...] -> [...]", samples=nothing, errors=nothing_wrong)
def silu_mul(gate: Array, up: Array, limit: float = math.inf) -> Array:
    """silu(min(gate, limit)) * clip(up, -limit, limit): SwiGLU. gate and up [...]."""
    return narrow(_silu(np.minimum(wide(gate), limit)) * np.clip(wide(up), -limit, limit))


@op("gate[...], up[...] -> [...]", samples=nothing, errors=nothing_wrong)
def gelu_mul(gate: Array, up: Array) -> Array:
    """gelu_tanh(gate) * up. gate and up [...]."""
    return narrow(_gelu_tanh(wide(gate)) * wide(up))


@op("gate[...], up[...] -> [...]", samples=nothing, errors=nothing_wrong)
def gelu_erf_mul(gate: Array, up: Array) -> Array:
    """gelu(gate) * up, with erf. gate and up [...]."""
    return narrow(_gelu(wide(gate)) * wide(up))


@op("gate[...], up[...] -> [...]", samples=nothing, errors=nothing_wrong)
def quick_gelu_mul(gate: Array, up: Array) -> Array:
    """quick_gelu(gate) * up. gate and up [...]."""
    return narrow(_quick_gelu(wide(gate)) * wide(up))


@op("gate[...], up[...] -> [...]", samples=nothing, errors=nothing_wrong)
def swiglu_oai(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    """g * sigmoid(alpha * g) * (u + 1) with g = min(gate, limit) and u = clip(up, -limit, limit). gate and up [...]. gpt-oss, 2025."""
    g, u = np.minimum(wide(gate), limit), np.clip(wide(up), -limit, limit)
    return narrow(g * sigmoid(alpha * g) * (u + 1))


def _silu(x: Array) -> Array:
    return x * sigmoid(x)


def _gelu(x: Array) -> Array:
    return x / 2 * (1 + _erf(x / math.sqrt(2)))


def _gelu_tanh(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _quick_gelu(x: Array) -> Array:
    return x * sigmoid(1.702 * x)


_erf = np.vectorize(math.erf, otypes=[np.float64])
