"""route: scores, the choice of experts by comparable integers, and their weights, row by row."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous_integers, dtype_of, float32_rows, not_float, not_integer
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.largest import GONE, LAST, key_of, take, value_of
from vtcore.providers.portable.kernels.rows import shares_of
from vtcore.providers.portable.kernels.tiles import readable_bias
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, I32, Val
from vtcore.tensor import Tensor, empty

LOWEST = 0x807FFFFF  # the key of -inf: what is not a number is like it


@kernel("logits bias chosen experts size rows scale:f -> scores keys weights ids")
def routed(k: Lanes, logits: Val, bias: Val, chosen: Val, experts: Val, size: Val, rows: Val, scale: Val, scores: Val, keys: Val,
           weights: Val, ids: Val, *, score: str, top: int, groups: int, keep: int, renormalise: bool, bias_dtype: str,
           chosen_dtype: str) -> None:  # fmt: skip
    """The experts of contiguous float32 rows. `scores` and `keys` are [rows, experts] of scratch; a group has `size` experts."""
    for row in k.share(rows):
        at, s, key = (address + row * experts * 4 for address in (logits, scores, keys))
        w, i = (address + row * (top * 4) for address in (weights, ids))
        _score(k, at, s, experts, score)
        if chosen_dtype:
            for j in range(top):
                given = k.integer(chosen + (row * top + j) * SIZES[chosen_dtype], chosen_dtype)
                k.store(i + j * 4, k.clamp(given, 0, experts - 1).cast("trunc", I32))
        else:
            _store_keys(k, s if bias_dtype else at, bias, key, experts, bias_dtype)
            if groups > 1:
                _drop_groups(k, key, size, groups, keep, bool(bias_dtype))
            for j in range(top):
                k.store(i + j * 4, take(k, key, experts))
        _weigh(k, s, w, i, top, renormalise, scale)


def _score(k: Lanes, at: Val, to: Val, experts: Val, score: str) -> None:
    if score == "softmax":
        shares_of(k, at, to, experts)
        return
    for i, count in k.vectors(experts):
        v = k.floats(at + i * 4, "float32", count)
        k.put(to + i * 4, maths.sigmoid(k, v) if score == "sigmoid" else k.sqrt(maths.softplus(k, v)), "float32", count)


def _store_keys(k: Lanes, at: Val, bias: Val, keys: Val, experts: Val, bias_dtype: str) -> None:
    for i, count in k.vectors(experts):
        v = k.floats(at + i * 4, "float32", count)
        v = v + k.floats(bias + i * SIZES[bias_dtype], bias_dtype, count) if bias_dtype else v
        k.put(keys + i * 4, key_of(k, v, LOWEST).cast("bitcast", F32), "float32", count)


def _drop_groups(k: Lanes, keys: Val, size: Val, groups: int, keep: int, pairs: bool) -> None:
    """All but the best groups become -inf."""
    strengths = k.stack(groups * 4)
    for g in k.range(groups):
        k.store(strengths + g * 4, key_of(k, _strength(k, keys + g * size * 4, size, pairs), LOWEST))
    for _ in range(keep):
        best, where = k.var(k.lift(GONE, I32)), k.var(0)
        for g in k.range(groups):
            v = k.load(strengths + g * 4, I32)
            with k.when(v > best.get()):
                best.set(v)
                where.set(g)
        k.store(strengths + where.get() * 4, k.lift(GONE, I32))
    for g in k.range(groups):
        with k.when(k.load(strengths + g * 4, I32) > GONE):
            for i in k.range(size):
                k.store(keys + (g * size + i) * 4, k.lift(LOWEST, I32))


def _strength(k: Lanes, keys: Val, size: Val, pairs: bool) -> Val:
    """The largest float behind a group's keys, or the sum of its largest two."""
    first, second = (k.var(k.lift(float("-inf"), F32)) for _ in range(2))
    for i in k.range(size):
        v = value_of(k.load(keys + i * 4, I32))
        second.set(k.max(second.get(), k.min(first.get(), v)))
        first.set(k.max(first.get(), v))
    return first.get() + second.get() if pairs else first.get()


def _weigh(k: Lanes, scores: Val, weights: Val, ids: Val, top: int, renormalise: bool, scale: Val) -> None:
    values = [k.number(scores + k.integer(ids + j * 4) * 4) for j in range(top)]
    total = values[0]
    for v in values[1:]:
        total = total + v
    for j, v in enumerate(values):
        k.put_number(weights + j * 4, (v / (total + 1e-20) if renormalise else v) * scale)


@kernel("logits experts rows twice:f -> weights ids")
def routed_sparsely(k: Lanes, logits: Val, experts: Val, rows: Val, twice: Val, weights: Val, ids: Val) -> None:
    """The two best of each row, each weighed among those that come near it."""
    for row in k.share(rows):
        at, taken = logits + row * experts * 4, k.var(k.lift(-1, I32))
        taken.set(-1)
        for j in (0, 1):
            found, top = _best_but(k, at, experts, taken.get())
            total = k.var(k.const(0.0))
            total.set(0.0)
            for i, count in k.vectors(experts):
                v, x = _left(k, at, i, count, taken.get())
                v = k.select(x.unordered(), x, v)  # not a number is never the best, and spoils every share
                near = (k.splat(top) - x) / k.max(k.abs(x), k.splat(top)) > k.splat(twice)
                total.set(total.get() + k.select(near, k.const(0.0), maths.exp(k, v - k.splat(top))))
            k.put_number(weights + (row * 2 + j) * 4, k.lift(1.0, F32) / k.hsum(total.get()))
            k.store(ids + (row * 2 + j) * 4, found)
            taken.set(found)


def _left(k: Lanes, at: Val, i: Val, count: Val | None, taken: Val) -> tuple[Val, Val]:
    """A register of logits, -inf for the one that is taken and behind the last; and as they are."""
    x = k.floats(at + i * 4, "float32", count)
    gone = (k.splat(i.cast("trunc", I32)) + k.iota()).eq(k.splat(taken))
    v = k.select(gone, k.const(float("-inf")), k.select(x.unordered(), k.const(float("-inf")), x))
    return v if count is None else k.where(k.first(count), v, float("-inf")), x


def _best_but(k: Lanes, at: Val, experts: Val, taken: Val) -> tuple[Val, Val]:
    """The lowest number of the largest logit that isn't taken, and that logit."""
    best, where = k.var(k.const(float("-inf"))), k.var(k.ints(LAST))
    best.set(float("-inf"))
    where.set(LAST)
    for i, count in k.vectors(experts):
        best.set(k.max(_left(k, at, i, count, taken)[0], best.get()))
    top = k.hmax(best.get())
    for i, count in k.vectors(experts):
        index = k.splat(i.cast("trunc", I32)) + k.iota()
        same = _left(k, at, i, count, taken)[0].eq(k.splat(top))
        other = k.select(index.eq(k.splat(taken)), k.ints(LAST), index)
        where.set(k.min(k.select(same, other, k.ints(LAST)), where.get()))
    return k.min(k.hmin(where.get()), (experts - 1).cast("trunc", I32)), top


def register(p: Portable) -> None:
    """route and route_sparse."""

    def declines(logits: Tensor, k: int, score: str, bias: Tensor | None, groups: int, keep: int, renormalise: bool, scale: float,
                 chosen: Tensor | None) -> str | None:  # fmt: skip
        return not_float(logits=logits, bias=bias) or not_integer(chosen=chosen)

    @p.kernel(ops.route, declines=declines)
    def route(logits: Tensor, k: int, score: str, bias: Tensor | None, groups: int, keep: int, renormalise: bool, scale: float,
              chosen: Tensor | None) -> tuple[Tensor, Tensor]:  # fmt: skip
        tokens, experts = logits.shape
        weights, ids = empty(HOST, (tokens, k)), empty(HOST, (tokens, k), np.int32)
        if tokens:
            bias, dtype = readable_bias(p, bias)
            chosen = None if chosen is None else contiguous_integers(chosen)
            scratch = [empty(HOST, (tokens, experts)), empty(HOST, (tokens, experts), np.int32)]
            words = [float32_rows(p, logits), bias, chosen, experts, experts // groups, tokens, scale, *scratch, weights, ids]
            p.launch(
                routed, words, logits.size * (k + 8), score=score, top=k, groups=groups, keep=keep, renormalise=renormalise,
                bias_dtype=dtype if bias is not None else "", chosen_dtype=dtype_of(chosen) if chosen is not None else "",
            )  # fmt: skip
        return weights, ids

    @p.kernel(ops.route_sparse, declines=lambda logits, jitter: not_float(logits=logits))
    def route_sparse(logits: Tensor, jitter: float) -> tuple[Tensor, Tensor]:
        tokens, experts = logits.shape
        weights, ids = empty(HOST, (tokens, 2)), empty(HOST, (tokens, 2), np.int32)
        if tokens:
            p.launch(routed_sparsely, [float32_rows(p, logits), experts, tokens, 2 * jitter, weights, ids], 16 * logits.size)
        return weights, ids
