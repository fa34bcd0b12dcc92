"""Alternating updates: a residual of several streams, of which a layer computes one and guesses the others (Baykal and others, 2023)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import cut, normal, ones, sixteen, turned
from vtcore.ops.rules import positive

SUMS = Tolerance({"float32": 1e-5}, "a few float32 products of a size, summed: under 100 ulp of the row's largest")
LEVEL = Tolerance({"float32": 1e-5}, "float32 sums of some thousand squares in another order: under 100 ulp of the row's largest")
SIZES = ((1, 4, 1, 64), (3, 4, 4, 33), (5, 7, 1, 256), (0, 4, 4, 16), (2, 1, 3, 7))  # tokens, streams, sums, width


def _mix_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, s, m, h in SIZES:
        yield {"streams": normal(rng, t, s, h), "weights": normal(rng, t, m, s)}
    call = {"streams": cut(normal(rng, 3, 4, 16)), "weights": turned(normal(rng, 4, 2, 3)).transpose(2, 1, 0)}
    yield call
    yield from sixteen(call)


def _mix_errors() -> Iterator[tuple[Call, str]]:
    good = {"streams": ones(2, 4, 8), "weights": ones(2, 1, 4)}
    yield good | {"weights": ones(2, 1, 3)}, "axis S of weights"
    yield good | {"weights": ones(3, 1, 4)}, "axis T of weights"
    yield good | {"weights": ones(2, 4)}, "weights has shape [2, 4]; it must have 3 axes"


@op("streams[T S H], weights[T M S] -> [T M H]", samples=_mix_samples, errors=_mix_errors, tolerance=SUMS)
def mix_streams(streams: Array, weights: Array) -> Array:
    """Sums of a token's streams by its own weights: m is the sum over s of weights[t, m, s] * streams[t, s].

    streams [T S H], weights [T M S], result [T M H]. Each token has a matrix of its own."""
    return narrow((wide(weights)[..., None] * wide(streams)[:, None]).sum(2))


def _level_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, s, _, h in SIZES:
        yield {"streams": normal(rng, t, s, h, magnitude=30), "like": normal(rng, t, h), "floor": 1e-5}
    call = {"streams": cut(normal(rng, 3, 4, 16)), "like": turned(normal(rng, 3, 16)), "floor": 1e-5}
    yield call
    yield call | {"streams": normal(rng, 3, 4, 16, magnitude=1e-6)}
    yield call | {"streams": np.zeros((3, 4, 16), np.float32), "floor": 0.5}
    yield from sixteen(call)


def _level_errors() -> Iterator[tuple[Call, str]]:
    good = {"streams": ones(2, 4, 8), "like": ones(2, 8), "floor": 1e-5}
    yield good | {"like": ones(2, 7)}, "axis H of like"
    yield good | {"like": ones(3, 8)}, "axis T of like"
    yield good | {"floor": 0.0}, "floor is 0.0; it must be over 0"


@op(
    "streams[T S H], like[T H] -> [T S H]",
    samples=_level_samples,
    errors=_level_errors,
    tolerance=LEVEL,
    check=lambda floor, **_: positive(floor=floor),
)
def match_level(streams: Array, like: Array, floor: float) -> Array:
    """Each stream with the root mean square of another row: stream * sqrt(mean(like^2)) / sqrt(max(mean(stream^2), floor)).

    streams [T S H], like [T H]. Gemma 3n, 2025."""
    x, model = wide(streams), wide(like)[:, None]
    level, own = (np.mean(a * a, -1, keepdims=True) for a in (model, x))
    return narrow(x * np.sqrt(level) / np.sqrt(np.maximum(own, floor)))
