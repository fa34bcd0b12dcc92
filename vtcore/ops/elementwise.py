"""Sums, products and caps, value by value. Axes broadcast by NumPy's rule where an op takes two arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, sigmoid, wide
from vtcore.ops.inputs import arrays, cut, normal, ones, sixteen, turned
from vtcore.ops.rules import positive

ONE_STEP = Tolerance({"float32": 1e-6}, "a float32 operation or two for each value: under 10 ulp of the largest of the row")
# of x and y, or of x and a gate: one shape, a vector, a column, one value, both ways, no rows
PAIRS = (
    ((3, 65), (3, 65)),
    ((2, 3, 64), (64,)),
    ((5, 33), (5, 1)),
    ((2, 4, 16), (2, 1, 16)),
    ((3, 8), (1,)),
    ((8,), (3, 8)),
    ((0, 8), (8,)),
)

CONCATENATED = (((3, 64), (3, 33)), ((2, 4, 16), (2, 1, 8)), ((1, 4, 16), (5, 4, 1)), ((1, 0), (1, 5)), ((4,), (2, 3)), ((0, 8), (0, 8)))


def _pairs(rng: np.random.Generator, second: str) -> Iterator[Call]:
    for one, other in PAIRS:
        yield {"x": normal(rng, *one), second: normal(rng, *other)}
    for x in arrays(rng):
        yield {"x": x, second: normal(rng, *x.shape)}
    yield {"x": cut(normal(rng, 3, 32)), second: turned(normal(rng, 3, 32))}
    yield from sixteen({"x": normal(rng, 3, 65), second: normal(rng, 65)})


def _pair_errors(second: str) -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 8), second: ones(7)}, f"{second} has shape [7]; its axes must broadcast with [2, 8]"
    yield {"x": ones(2, 8), second: ones(3, 8)}, f"{second} has shape [3, 8]"
    yield {"x": ones(2, 8), second: None}, f"{second} is NoneType"
    yield {"x": np.ones(3), second: ones(3)}, "x is float64"


def _singles(rng: np.random.Generator, name: str, *values: float) -> Iterator[Call]:
    for i, x in enumerate(arrays(rng)):
        yield {"x": x, name: values[i % len(values)]}
    yield from sixteen({"x": normal(rng, 3, 65), name: values[0]})


@op(
    "x[...]~, y[...]~ -> [...]",
    samples=lambda rng: _pairs(rng, "y"),
    errors=lambda: _pair_errors("y"),
    tolerance=ONE_STEP,
)
def add(x: Array, y: Array) -> Array:
    """x + y. Of one shape, or one broadcast along the other: a bias [H], a column [T 1]."""
    return narrow(wide(x) + wide(y))


@op(
    "x[...]~, y[...]~ -> [...]",
    samples=lambda rng: _pairs(rng, "y"),
    errors=lambda: _pair_errors("y"),
    tolerance=ONE_STEP,
)
def mul(x: Array, y: Array) -> Array:
    """x * y. Of one shape, or one broadcast along the other."""
    return narrow(wide(x) * wide(y))


def _scale_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2), "factor": ones(2)}, "factor is ndarray"
    yield {"x": None, "factor": 2.0}, "x is NoneType"


@op("x[...] -> [...]", samples=lambda rng: _singles(rng, "factor", 0.1, -3.0, 0.0), errors=_scale_errors, tolerance=ONE_STEP)
def scale(x: Array, factor: float) -> Array:
    """x * factor, the factor rounded to float32 first. x [...]."""
    return narrow(wide(x) * np.float64(np.float32(factor)))


def _concat_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x, y in CONCATENATED:
        yield {"x": normal(rng, *x), "y": normal(rng, *y)}
    yield {"x": cut(normal(rng, 3, 16)), "y": turned(normal(rng, 3, 8))}
    yield from sixteen({"x": normal(rng, 3, 16), "y": normal(rng, 3, 8)})


def _concat_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 8), "y": ones(3, 8)}, "y has shape [3, 8]; its axes must broadcast with [2]"
    yield {"x": ones(2, 8), "y": np.float32(1)}, "at least 1"


@op("x[... A]~, y[... B]~ -> [... A+B]", samples=_concat_samples, errors=_concat_errors, tolerance=ONE_STEP)
def concat(x: Array, y: Array) -> Array:
    """x and y joined on the last axis, [... A] and [... B] to [... A+B]; the other axes broadcast."""
    lead = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return narrow(np.concatenate([np.broadcast_to(narrow(a), (*lead, a.shape[-1])) for a in (x, y)], -1))


def _cap_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield from _singles(rng, "cap", 30.0, 50.0, 0.5)
    yield {"x": np.array([math.inf, -math.inf, math.nan, -0.0], np.float32), "cap": 30.0}


def _cap_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2), "cap": 0.0}, "cap is 0.0; it must be over 0"
    yield {"x": ones(2), "cap": math.nan}, "cap is nan"


@op("x[...] -> [...]", samples=_cap_samples, errors=_cap_errors, tolerance=ONE_STEP, check=lambda cap, **_: positive(cap=cap))
def softcap(x: Array, cap: float) -> Array:
    """cap * tanh(x / cap): nearly x while |x| is small, never beyond the cap. x [...]. Gemma 2, 2024."""
    return narrow(cap * np.tanh(wide(x) / cap))


def _clamp_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield from _singles(rng, "limit", 0.5, 8.0, 1e4)
    yield {"x": np.array([math.inf, -math.inf, math.nan, -0.0, 2.0, -2.0], np.float32), "limit": 2.0}


def _clamp_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2), "limit": 0.0}, "limit is 0.0; it must be over 0"
    yield {"x": np.ones(2, np.int32), "limit": 1.0}, "x is int32"


@op("x[...] -> [...]", samples=_clamp_samples, errors=_clamp_errors, tolerance=ONE_STEP, check=lambda limit, **_: positive(limit=limit))
def clamp(x: Array, limit: float) -> Array:
    """x, but not beyond -limit and limit. x [...]. Of queries, keys and values in OLMo and MPT."""
    return narrow(np.clip(wide(x), -limit, limit))


@op(
    "x[...]~, gate[...]~ -> [...]",
    samples=lambda rng: _pairs(rng, "gate"),
    errors=lambda: _pair_errors("gate"),
    tolerance=ONE_STEP,
)
def sigmoid_mul(x: Array, gate: Array) -> Array:
    """x * sigmoid(gate). Of one shape, or one broadcast along the other: a gate for each head [T H 1]."""
    return narrow(wide(x) * sigmoid(wide(gate)))
