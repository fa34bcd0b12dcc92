"""Activations, and the gated ones between a multilayer perceptron's projections (GLU variants improve transformer, Shazeer, 2020)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, sigmoid, wide
from vtcore.ops.inputs import arrays, cut, normal, ones, sixteen, turned
from vtcore.ops.rules import positive

CURVE = Tolerance(
    {"float32": 2e-6}, "float32 exp, tanh or erf within 2 ulp, and the operations around it: about 20 ulp of the row's largest"
)
POINTS = np.linspace(-12, 12, 97, dtype=np.float32).reshape(1, 97)  # both tails and the bend


def _values(rng: np.random.Generator) -> Iterator[Call]:
    for x in (*arrays(rng), POINTS):
        yield {"x": x}
    yield from sixteen({"x": normal(rng, 3, 65, magnitude=4)})


def _values_and_infinity(rng: np.random.Generator) -> Iterator[Call]:
    yield from _values(rng)
    yield {"x": np.array([math.inf, -math.inf, math.nan], np.float32)}


def _value_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": np.ones(3, np.int32)}, "x is int32; it must be float32, float16 or bfloat16"
    yield {"x": 1.0}, "x is float"


def _gated(rng: np.random.Generator) -> Iterator[Call]:
    for gate in (*arrays(rng), POINTS):
        yield {"gate": gate, "up": normal(rng, *gate.shape)}
    both = normal(rng, 5, 192)
    yield {"gate": both[:, :96], "up": both[:, 96:]}
    yield {"gate": cut(normal(rng, 4, 33)), "up": turned(normal(rng, 4, 33))}
    yield from sixteen({"gate": normal(rng, 3, 65), "up": normal(rng, 3, 65)})


def _gated_errors() -> Iterator[tuple[Call, str]]:
    yield {"gate": ones(2, 8), "up": ones(2, 7)}, "up has shape [2, 7]; the axes in place of ... must be [2, 8]"
    yield {"gate": ones(2, 8), "up": ones(8)}, "up has shape [8]"
    yield {"gate": np.ones(8), "up": ones(8)}, "gate is float64"


@op("x[...] -> [...]", samples=_values, errors=_value_errors, tolerance=CURVE)
def silu(x: Array) -> Array:
    """x * sigmoid(x). x [...]. Elfwing, Uchibe and Doya, 2017."""
    return narrow(_silu(wide(x)))


@op("x[...] -> [...]", samples=_values, errors=_value_errors, tolerance=CURVE)
def gelu(x: Array) -> Array:
    """x * the normal distribution's share below x: x / 2 * (1 + erf(x / sqrt(2))). x [...]. Hendrycks and Gimpel, 2016."""
    return narrow(_gelu(wide(x)))


@op("x[...] -> [...]", samples=_values, errors=_value_errors, tolerance=CURVE)
def gelu_tanh(x: Array) -> Array:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))): gelu, approximated. x [...]. Hendrycks and Gimpel, 2016."""
    return narrow(_gelu_tanh(wide(x)))


@op("x[...] -> [...]", samples=_values, errors=_value_errors, tolerance=CURVE)
def quick_gelu(x: Array) -> Array:
    """x * sigmoid(1.702 x). x [...]. Hendrycks and Gimpel, 2016."""
    return narrow(_quick_gelu(wide(x)))


@op("x[...] -> [...]", samples=_values_and_infinity, errors=_value_errors, tolerance=CURVE)
def relu(x: Array) -> Array:
    """max(x, 0). x [...]."""
    return narrow(np.maximum(wide(x), 0))


@op("x[...] -> [...]", samples=_values_and_infinity, errors=_value_errors, tolerance=CURVE)
def relu_squared(x: Array) -> Array:
    """max(x, 0)^2. x [...]. Primer, So and others, 2021."""
    return narrow(np.maximum(wide(x), 0) ** 2)


@op("x[...] -> [...]", samples=_values_and_infinity, errors=_value_errors, tolerance=CURVE)
def softplus(x: Array) -> Array:
    """ln(1 + exp(x)). x [...]. Dugas and others, 2001."""
    return narrow(np.logaddexp(0, wide(x)))


def _silu_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield from _gated(rng)
    for limit in (7.0, 0.5):
        yield {"gate": normal(rng, 4, 64, magnitude=8), "up": normal(rng, 4, 64, magnitude=8), "limit": limit}


def _silu_errors() -> Iterator[tuple[Call, str]]:
    yield from _gated_errors()
    yield {"gate": ones(2), "up": ones(2), "limit": 0.0}, "limit is 0.0; it must be over 0"


@op(
    "gate[...], up[...] -> [...]",
    samples=_silu_samples,
    errors=_silu_errors,
    tolerance=CURVE,
    check=lambda limit, **_: positive(limit=limit),
)
def silu_mul(gate: Array, up: Array, limit: float = math.inf) -> Array:
    """silu(min(gate, limit)) * clip(up, -limit, limit): SwiGLU. gate and up [...]."""
    return narrow(_silu(np.minimum(wide(gate), limit)) * np.clip(wide(up), -limit, limit))


@op("gate[...], up[...] -> [...]", samples=_gated, errors=_gated_errors, tolerance=CURVE)
def gelu_mul(gate: Array, up: Array) -> Array:
    """gelu_tanh(gate) * up. gate and up [...]."""
    return narrow(_gelu_tanh(wide(gate)) * wide(up))


@op("gate[...], up[...] -> [...]", samples=_gated, errors=_gated_errors, tolerance=CURVE)
def gelu_erf_mul(gate: Array, up: Array) -> Array:
    """gelu(gate) * up, with erf. gate and up [...]."""
    return narrow(_gelu(wide(gate)) * wide(up))


@op("gate[...], up[...] -> [...]", samples=_gated, errors=_gated_errors, tolerance=CURVE)
def quick_gelu_mul(gate: Array, up: Array) -> Array:
    """quick_gelu(gate) * up. gate and up [...]."""
    return narrow(_quick_gelu(wide(gate)) * wide(up))


def _oai_samples(rng: np.random.Generator) -> Iterator[Call]:
    for call in _gated(rng):
        yield call | {"alpha": 1.702, "limit": 7.0}
    yield {"gate": normal(rng, 4, 64, magnitude=8), "up": normal(rng, 4, 64, magnitude=8), "alpha": 1.0, "limit": 3.0}
    yield {"gate": POINTS, "up": POINTS, "alpha": 1.702, "limit": math.inf}


def _oai_errors() -> Iterator[tuple[Call, str]]:
    for call, words in _gated_errors():
        yield call | {"alpha": 1.702, "limit": 7.0}, words
    yield {"gate": ones(2), "up": ones(2), "alpha": 1.702, "limit": -7.0}, "limit is -7.0"


@op(
    "gate[...], up[...] -> [...]",
    samples=_oai_samples,
    errors=_oai_errors,
    tolerance=CURVE,
    check=lambda limit, **_: positive(limit=limit),
)
def swiglu_oai(gate: Array, up: Array, alpha: float, limit: float) -> Array:
    """g * sigmoid(alpha * g) * (u + 1) with g = min(gate, limit) and u = clip(up, -limit, limit). gate and up [...]. gpt-oss, 2025."""
    g, u = np.minimum(wide(gate), limit), np.clip(wide(up), -limit, limit)
    return narrow(g * sigmoid(alpha * g) * (u + 1))


def _situ_samples(rng: np.random.Generator) -> Iterator[Call]:
    for i, call in enumerate(_gated(rng)):
        yield call | ({"alpha": 4.0, "limit": 25.0}, {"alpha": 1.0})[i % 2]
    yield {"gate": normal(rng, 4, 64, magnitude=8), "up": normal(rng, 4, 64, magnitude=8), "alpha": 2.0, "limit": 3.0}


def _situ_errors() -> Iterator[tuple[Call, str]]:
    for call, words in _gated_errors():
        yield call | {"alpha": 4.0}, words
    yield {"gate": ones(2), "up": ones(2), "alpha": 0.0}, "alpha is 0.0; it must be over 0"
    yield {"gate": ones(2), "up": ones(2), "alpha": 4.0, "limit": -1.0}, "limit is -1.0; it must be over 0"


@op(
    "gate[...], up[...] -> [...]",
    samples=_situ_samples,
    errors=_situ_errors,
    tolerance=CURVE,
    check=lambda alpha, limit, **_: positive(alpha=alpha, limit=limit),
)
def situ_mul(gate: Array, up: Array, alpha: float, limit: float = math.inf) -> Array:
    """alpha * tanh(gate / alpha) * sigmoid(gate) * (limit * tanh(up / limit)): SwiGLU, both factors kept within smooth bounds.

    gate and up [...]; without a limit up stays as it is. Kimi K3, 2026."""
    g, u = wide(gate), wide(up)
    return narrow(alpha * np.tanh(g / alpha) * sigmoid(g) * (u if math.isinf(limit) else limit * np.tanh(u / limit)))


def _xielu_samples(rng: np.random.Generator) -> Iterator[Call]:
    for i, call in enumerate(_values(rng)):
        numbers = ((0.8, 1.3, 0.5, -1e-6), (0.1, 4.0, 0.0, 0.0), (2.5, 0.6, 1.0, -0.25))[i % 3]
        yield call | {n: v.astype(call["x"].dtype) for n, v in _bends(*numbers).items()}


def _bends(*numbers: float) -> Call:
    return {n: np.array([v], np.float32) for n, v in zip(("rise", "fall", "slope", "eps"), numbers, strict=True)}


def _xielu_errors() -> Iterator[tuple[Call, str]]:
    good = {"x": ones(2, 8)} | _bends(0.8, 1.3, 0.5, -1e-6)
    yield good | {"rise": ones(2)}, "axis 1 of rise"
    yield good | {"eps": -1e-6}, "eps is float"
    yield good | {"x": np.ones(8)}, "x is float64"


@op(
    "x[...], rise[1], fall[1], slope[1], eps[1] -> [...]",
    samples=_xielu_samples,
    errors=_xielu_errors,
    tolerance=CURVE,
)
def xielu(x: Array, rise: Array, fall: Array, slope: Array, eps: Array) -> Array:
    """rise * x^2 + slope * x where x > 0, elsewhere (slope + fall) * (exp(min(x, eps)) - 1 - x) + slope * x.

    x [...]; the four numbers [1] are a layer's own. xIELU, Huang and Schlag, 2024."""
    v, a, b, c, e = (wide(t) for t in (x, rise, fall, slope, eps))
    low = (c + b) * (np.expm1(np.minimum(v, e)) - v)
    return narrow(np.where(v > 0, a * v * v, low) + c * v)


def _silu(x: Array) -> Array:
    return x * sigmoid(x)


def _gelu(x: Array) -> Array:
    return x / 2 * _erfc(-x / math.sqrt(2))  # 1 + erf(z) is erfc(-z), which keeps its digits where erf is nearly -1


def _gelu_tanh(x: Array) -> Array:
    return x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))  # (1 + tanh(z)) / 2 is sigmoid(2 z), for the same reason


def _quick_gelu(x: Array) -> Array:
    return x * sigmoid(1.702 * x)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])
