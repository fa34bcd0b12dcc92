"""Hyper-connections: a residual of several streams, mixed by weights that each token computes for itself (Zhu and others, 2024).

DeepSeek 4 keeps the mixing matrix doubly stochastic by Sinkhorn's rounds (Xie and others, 2025)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, product, sigmoid, wide
from vtcore.ops.inputs import cut, normal, ones, sixteen
from vtcore.ops.rules import first, not_negative, positive, unless

MIXED = Tolerance(
    {"float32": 1e-4}, "float32 sums of some thousand products, then exponentials of them: under 1000 ulp of the row's largest"
)
SIZES = ((1, 4, 64), (3, 2, 33), (5, 4, 256), (0, 4, 16), (2, 3, 7))


def _call(rng: np.random.Generator, t: int, s: int, h: int, rows: int, scales: int) -> Call:
    call = {"streams": normal(rng, t, s, h), "fn": normal(rng, rows, s * h, magnitude=(s * h) ** -0.5), "base": normal(rng, rows)}
    return call | {"scales": normal(rng, scales), "hc_eps": 1e-6, "eps": 1e-5}


def _in_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, s, h in SIZES:
        yield _call(rng, t, s, h, s * (s + 2), 3) | {"rounds": 20}
    call = _call(rng, 3, 4, 32, 24, 3)
    yield call | {"rounds": 1, "hc_eps": 1e-3}
    yield call | {"rounds": 3, "streams": cut(call["streams"]), "base": call["base"] * 20, "eps": 0.1}
    yield from sixteen(call | {"rounds": 20})


def _in_errors() -> Iterator[tuple[Call, str]]:
    good = _call(np.random.default_rng(0), 2, 4, 8, 24, 3) | {"rounds": 2}
    yield good | {"fn": ones(20, 32), "base": ones(20)}, "fn has 20 rows; for 4 streams it must have 24"
    yield good | {"fn": ones(24, 30)}, "fn has 30 columns; for 4 streams of 8 it must have 32"
    yield good | {"scales": ones(2)}, "scales has 2 numbers; it must have 3"
    yield good | {"base": ones(4)}, "axis M of base"
    yield good | {"rounds": 0}, "rounds is 0"
    yield good | {"eps": -1.0}, "eps is -1.0"


def _rules(streams: Array, fn: Array, scales: Array, hc_eps: float, eps: float, rounds: int = 1, parts: int = 3, **_: object) -> str | None:
    s, h = streams.shape[1:]
    rows = s * (s + 2) if parts == 3 else s
    return first(
        unless(fn.shape[0] == rows, f"fn has {fn.shape[0]} rows; for {s} streams it must have {rows}"),
        unless(fn.shape[1] == s * h, f"fn has {fn.shape[1]} columns; for {s} streams of {h} it must have {s * h}"),
        unless(scales.shape[0] == parts, f"scales has {scales.shape[0]} numbers; it must have {parts}"),
        positive(rounds=rounds),
        not_negative(hc_eps=hc_eps, eps=eps),
    )


@op(
    "streams[T S H], fn[M F], base[M], scales[N] -> [T H], [T S], [T S S]",
    samples=_in_samples,
    errors=_in_errors,
    tolerance=MIXED,
    check=_rules,
)
def hyper_in(
    streams: Array, fn: Array, base: Array, scales: Array, rounds: int, hc_eps: float, eps: float
) -> tuple[Array, Array, Array]:  # fmt: skip
    """A block's input [T H] from the streams, and what `hyper_out` needs: post [T S] and a doubly stochastic comb [T S S].

    streams [T S H]; fn [S * (S + 2), S * H], base [S * (S + 2)], scales [3]. With the streams side by side as x:
    z = fn x / sqrt(mean(x^2) + eps), in three parts, each times its scale and plus its base: S for pre = sigmoid(z) + hc_eps, S for
    post = 2 sigmoid(z), S * S for comb = softmax of its rows + hc_eps, then columns and (rounds - 1) times rows and columns are divided by
    their sum + hc_eps. The input is the sum of pre_i * stream_i."""
    s, x = streams.shape[1], wide(streams)
    z = _mixes(x, fn, eps)
    z = z * np.repeat(wide(scales), (s, s, s * s)) + wide(base)
    comb = z[:, 2 * s :].reshape(-1, s, s)
    comb = np.exp(comb - comb.max(-1, keepdims=True))
    comb = comb / comb.sum(-1, keepdims=True) + hc_eps
    for i in range(rounds):
        comb = comb / (comb.sum(-1, keepdims=True) + hc_eps) if i else comb
        comb = comb / (comb.sum(-2, keepdims=True) + hc_eps)
    pre, post = sigmoid(z[:, :s]) + hc_eps, 2 * sigmoid(z[:, s : 2 * s])
    return narrow((pre[:, :, None] * x).sum(1)), narrow(post), narrow(comb)


def _out_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, s, h in SIZES:
        yield {"streams": normal(rng, t, s, h), "out": normal(rng, t, h), "post": normal(rng, t, s), "comb": normal(rng, t, s, s)}
    call = {"streams": cut(normal(rng, 3, 4, 16)), "out": normal(rng, 3, 16), "post": cut(normal(rng, 3, 4)), "comb": normal(rng, 3, 4, 4)}
    yield call
    yield from sixteen(call)


def _out_errors() -> Iterator[tuple[Call, str]]:
    good = {"streams": ones(2, 4, 8), "out": ones(2, 8), "post": ones(2, 4), "comb": ones(2, 4, 4)}
    yield good | {"out": ones(2, 7)}, "axis H of out"
    yield good | {"comb": ones(2, 4, 3)}, "axis S of comb"
    yield good | {"post": ones(3, 4)}, "axis T of post"


@op("streams[T S H], out[T H], post[T S], comb[T S S] -> [T S H]", samples=_out_samples, errors=_out_errors)
def hyper_out(streams: Array, out: Array, post: Array, comb: Array) -> Array:
    """The streams after a block: stream j is the sum over i of comb[i, j] * stream i, plus post[j] * out.

    streams [T S H], out [T H], post [T S] and comb [T S S] from `hyper_in`."""
    kept = (wide(comb)[..., None] * wide(streams)[:, :, None]).sum(1)
    return narrow(wide(post)[:, :, None] * wide(out)[:, None] + kept)


def _head_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, s, h in SIZES:
        yield _call(rng, t, s, h, s, 1)
    call = _call(rng, 3, 4, 32, 4, 1)
    yield call | {"streams": cut(call["streams"]), "hc_eps": 0.5, "eps": 0.1}
    yield from sixteen(call)


def _head_errors() -> Iterator[tuple[Call, str]]:
    good = _call(np.random.default_rng(0), 2, 4, 8, 4, 1)
    yield good | {"fn": ones(5, 32), "base": ones(5)}, "fn has 5 rows; for 4 streams it must have 4"
    yield good | {"scales": ones(3)}, "scales has 3 numbers; it must have 1"
    yield good | {"hc_eps": -1.0}, "hc_eps is -1.0"


@op(
    "streams[T S H], fn[M F], base[M], scales[N] -> [T H]",
    samples=_head_samples,
    errors=_head_errors,
    tolerance=MIXED,
    check=lambda **call: _rules(**call, parts=1),
)
def hyper_head(streams: Array, fn: Array, base: Array, scales: Array, hc_eps: float, eps: float) -> Array:
    """The streams as one: the sum of pre_i * stream_i with pre = sigmoid(scale * z + base) + hc_eps. [T H].

    streams [T S H]; fn [S, S * H], base [S], scales [1]; z = fn x / sqrt(mean(x^2) + eps) as in `hyper_in`."""
    x = wide(streams)
    pre = sigmoid(_mixes(x, fn, eps) * wide(scales) + wide(base)) + hc_eps
    return narrow((pre[:, :, None] * x).sum(1))


def _mixes(x: Array, fn: Array, eps: float) -> Array:
    rows = x.reshape(len(x), x.shape[1] * x.shape[2])
    return product(rows / np.sqrt(np.mean(rows * rows, -1, keepdims=True) + eps), fn)
