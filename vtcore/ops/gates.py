"""What says how much passes: a sigmoid, the step that a state space model takes, and a bar that few values of a row are over."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops import exact
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import arrays, cut, extreme, normal, ones, sixteen, turned
from vtcore.ops.rules import unless

CURVE = Tolerance({"float32": 2e-6}, "float32 exp and log within 2 ulp, and the operations around them: about 20 ulp of the row's largest")
POINTS = np.linspace(-30, 30, 121, dtype=np.float32).reshape(1, 121)  # both tails and the bend


def _values(rng: np.random.Generator) -> Iterator[Call]:
    for x in (*arrays(rng), POINTS):
        yield {"x": x}
    yield {"x": np.array([math.inf, -math.inf, math.nan], np.float32)}
    yield from sixteen({"x": normal(rng, 3, 65, magnitude=4)})


def _value_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": np.ones(3, np.int32)}, "x is int32; it must be float32, float16 or bfloat16"
    yield {"x": 1.0}, "x is float"


@op("x[...] -> [...]", samples=_values, errors=_value_errors, tolerance=CURVE)
def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)). x [...]. Verhulst's logistic function, 1838."""
    return narrow(exact.sigmoid(wide(x)))


def _steps(rng: np.random.Generator) -> Iterator[Call]:
    for i, x in enumerate((*arrays(rng), POINTS)):
        bounds = ({}, {"low": 1e-3}, {"low": 0.1, "high": 0.5}, {"high": 2.0})[i % 4]
        yield {"x": x, "bias": normal(rng, x.shape[-1])} | bounds
    yield {"x": POINTS, "bias": None}
    yield {"x": cut(normal(rng, 5, 24)), "bias": None, "low": 1e-4, "high": 0.1}
    yield from sixteen({"x": normal(rng, 3, 65, magnitude=4), "bias": normal(rng, 65)})


def _step_errors() -> Iterator[tuple[Call, str]]:
    good = {"x": ones(2, 8), "bias": ones(8)}
    yield good | {"bias": ones(7)}, "axis A of bias"
    yield good | {"low": 0.5, "high": 0.1}, "low is 0.5 and high is 0.1"
    yield good | {"low": math.nan}, "low is nan"
    yield good | {"x": np.ones((2, 8))}, "x is float64"


@op(
    "x[... A], bias[A]? -> [... A]",
    samples=_steps,
    errors=_step_errors,
    tolerance=CURVE,
    check=lambda low, high, **_: unless(0 <= low <= high, f"low is {low} and high is {high}; they must be 0 or more, low the smaller"),
)
def time_step(x: Array, bias: Array | None, low: float = 0.0, high: float = math.inf) -> Array:
    """ln(1 + exp(x + bias)), but not below `low` nor above `high`: how long a step a state takes for a token, always positive.

    x [... A], bias [A] or None. The bounds are rounded to float32 first. Mamba, Gu and Dao, 2023; softplus: Dugas and others, 2001."""
    steps = wide(x) if bias is None else wide(x) + wide(bias)
    return narrow(np.clip(np.logaddexp(0, steps), np.float64(np.float32(low)), np.float64(np.float32(high))))


BAR = Tolerance({"float32": 1e-5}, "float32 sums of some thousand values in another order, then a difference: under 100 ulp of the largest")


def _bars(rng: np.random.Generator) -> Iterator[Call]:
    for i, shape in enumerate(((1, 64), (3, 127), (2, 8192), (2, 3, 128), (96,), (0, 64))):
        yield {"x": normal(rng, *shape), "deviations": (1.6448536, 0.0, -0.5)[i % 3]}
    for x in (normal(rng, 3, 65, magnitude=1e4), normal(rng, 3, 65, magnitude=1e-30), extreme(rng, 4, 64), cut(normal(rng, 5, 96))):
        yield {"x": x, "deviations": 1.0}
    yield {"x": turned(normal(rng, 6, 33)), "deviations": 0.5}
    yield from sixteen({"x": normal(rng, 3, 65, magnitude=4), "deviations": 1.6448536})


def _bar_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 8), "deviations": math.inf}, "deviations is inf; it must be finite"
    yield {"x": np.ones((2, 8)), "deviations": 1.0}, "x is float64"
    yield {"x": np.float32(1), "deviations": 1.0}, "at least 1"


@op(
    "x[... A] -> [... A]",
    samples=_bars,
    errors=_bar_errors,
    tolerance=BAR,
    check=lambda deviations, **_: unless(math.isfinite(deviations), f"deviations is {deviations}; it must be finite"),
)
def over_bar(x: Array, deviations: float) -> Array:
    """max(x - (mean + deviations * standard deviation), 0), both of the row: about the k largest values, without a search. x [... A].

    The deviation is that of the row as a whole (divided by A, not A - 1). Statistical top-k of Spark Transformer, You and others, 2025."""
    rows = wide(x)
    bar = rows.mean(-1, keepdims=True) + deviations * rows.std(-1, keepdims=True)
    return narrow(np.maximum(rows - bar, 0))
