"""From logits to probabilities and tokens."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.inputs import arrays, ints, normal, ones, sixteen, vocabularies
from vtcore.ops.rules import first, inside, unless

INF = np.inf
SHARE = Tolerance(
    {"float32": 4e-6}, "float32 exponentials within 2 ulp, and their sum in another order: about 30 ulp of the row's largest", over="V"
)
CHOSEN = Tolerance({"float32": 0.0}, "values are picked and indices are equal", atol=0.0)


def _row_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in (*arrays(rng), *vocabularies(rng), np.array([[INF, 0, 1], [np.nan, 0, 1], [-INF, -INF, -INF], [-INF, 0, 0]], np.float32)):
        yield {"x": x}
    yield {"x": ones(2, 0)}
    yield from sixteen({"x": normal(rng, 3, 33, magnitude=8)})


def _row_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": np.ones((2, 8), np.int32)}, "x is int32"
    yield {"x": np.float32(1)}, "at least 1"


@op("x[... V] -> [... V]", samples=_row_samples, errors=_row_errors, tolerance=SHARE)
def softmax(x: Array) -> Array:
    """exp(x) / sum of exp(x) over the last axis. x [... V]. A row of -inf alone gives zeros; one with NaN or +inf gives NaN."""
    return narrow(shares(wide(x)))


@op("x[... V] -> [... V]", samples=_row_samples, errors=_row_errors, tolerance=SHARE)
def log_softmax(x: Array) -> Array:
    """x - log(sum of exp(x)) over the last axis. x [... V]. A row of -inf alone stays so; one with NaN or +inf gives NaN."""
    rows = wide(x)
    top = rows.max(-1, keepdims=True, initial=-np.inf)
    rows = rows - np.where(np.isneginf(top), 0, top)
    total = np.exp(rows).sum(-1, keepdims=True)
    return narrow(rows - np.log(np.where(total == 0, 1, total)))


def _best_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in (*arrays(rng), *vocabularies(rng)):
        yield {"x": x}
    yield {"x": np.array([[1, 3, 3, 2], [-0.0, 0.0, -INF, 0.0], [-INF] * 4, [0, np.nan, 5, np.nan]], np.float32)}
    yield from sixteen({"x": normal(rng, 3, 33)})


def _best_errors() -> Iterator[tuple[Call, str]]:
    yield from _row_errors()
    yield {"x": ones(2, 0)}, "V is 0; there is nothing to choose from"


def _some(x: Array, **_: object) -> str | None:
    return unless(x.shape[-1] > 0, "V is 0; there is nothing to choose from")


@op("x[... V] -> [...]:i", samples=_best_samples, errors=_best_errors, tolerance=CHOSEN, check=_some)
def argmax(x: Array) -> Array:
    """The index of the largest value of the last axis, the lowest on ties; the first NaN where there is one. x [... V], V > 0."""
    return np.array(wide(x).argmax(-1), np.int32)


def _top_k_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in (*arrays(rng), *vocabularies(rng)):
        yield {"x": x, "k": min(5, x.shape[-1])}
    yield {"x": np.array([[1, 3, 3, 2], [-0.0, 0.0, -INF, 0.0], [-INF] * 4], np.float32), "k": 3}
    yield from sixteen({"x": normal(rng, 3, 33), "k": 1})


def _top_k_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 8), "k": 9}, "k is 9; it must be in [1, 8]"
    yield {"x": ones(2, 8), "k": 0}, "k is 0"
    yield {"x": ones(2, 8), "k": 2.0}, "k is float"


def _top_k_rules(x: Array, k: int) -> str | None:
    return unless(1 <= k <= x.shape[-1], f"k is {k}; it must be in [1, {x.shape[-1]}]")


@op("x[... V] -> [... k], [... k]:i", samples=_top_k_samples, errors=_top_k_errors, tolerance=CHOSEN, check=_top_k_rules)
def top_k(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest values of the last axis, falling, and their indices; among equals the lowest index first. x [... V], k <= V."""
    rows = wide(x)
    ids = np.argsort(-rows, axis=-1, kind="stable")[..., :k]
    return narrow(np.take_along_axis(rows, ids, -1)), np.array(ids, np.int32, order="C")


def _random_samples(rng: np.random.Generator) -> Iterator[Call]:
    for x in vocabularies(rng):
        seeds = rng.integers(-(2**63), 2**63 - 1, len(x))
        yield {"probs": narrow(shares(wide(x))), "seeds": seeds, "steps": rng.integers(0, 100, len(x)).astype(np.int32)}
    call = {"probs": narrow(shares(normal(rng, 6, 33))), "seeds": np.array([0, 0, 1, -1, 42, 42]), "steps": ints(0, 1, 0, 0, 7, 7)}
    yield call
    yield {"probs": np.eye(3, 8, dtype=np.float32), "seeds": np.arange(3), "steps": ints(0, 1, 2)}
    yield from sixteen(call)


def _random_errors() -> Iterator[tuple[Call, str]]:
    good = {"probs": ones(2, 8), "seeds": np.arange(2), "steps": ints(0, 1)}
    yield good | {"seeds": ones(2)}, "seeds is float32; it must be an integer type"
    yield good | {"steps": ints(0)}, "axis R of steps"
    yield good | {"steps": ints(0, -1)}, "steps holds -1"
    yield good | {"probs": ones(2, 0)}, "V is 0"


@op(
    "probs[R V], seeds[R]:i, steps[R]:i -> [R]:i",
    samples=_random_samples,
    errors=_random_errors,
    tolerance=CHOSEN,
    check=lambda probs, steps, **_: first(_some(probs), inside("steps", steps, 0, INF)),
)
def random_sample(probs: Array, seeds: Array, steps: Array) -> Array:
    """One token a row, each with its probability: argmax(prob / q) in float64, q from the exponential distribution; the exponential race.

    probs [R V]; seeds (64 bits) and steps [R]. q = -log((h >> 12) / 2^52 + 2^-53), h = mix(mix(mix(seed) + step) + index) in uint64,
    mix(z) the finaliser of SplitMix64 after adding 0x9E3779B97F4A7C15 (Steele, Lea and Flood, 2014). So a row's draw depends on its
    own seed and step alone. Ties go to the lowest index."""
    index = np.arange(probs.shape[1], dtype=np.uint64)
    out = np.zeros(len(probs), np.int32)
    for r, row in enumerate(wide(probs)):
        start = _mix(_mix(seeds[r : r + 1].astype(np.uint64)) + steps[r : r + 1].astype(np.uint64))
        uniform = (_mix(start + index) >> np.uint64(12)) * 2.0**-52 + 2.0**-53
        out[r] = np.argmax(row / -np.log(uniform))
    return out


def _mix(z: Array) -> Array:
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
