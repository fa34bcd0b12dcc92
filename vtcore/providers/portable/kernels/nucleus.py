"""top_k; and top_k with top_p, in which the definition decides wherever rounding might.

Probabilities are summed up here in another order, and from other exponentials, than in the definition. Both are so near the truth that
they agree on every token, unless some sum is within SLACK of p: then the row is left to the definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous_integers, float32_rows, not_float, rows_of
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.largest import (
    FINITE,
    LAST,
    NAN,
    Room,
    as_bits,
    collect,
    collect_k,
    highest,
    key_of,
    keys_at,
    lanes_set,
    registers,
    take,
    value_of,
)
from vtcore.providers.portable.kernels.plain.choice import best
from vtcore.providers.portable.kernels.plain.kernel import not_int32, recording
from vtcore.providers.portable.kernels.rows import holds_nan, top_of
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, F64, I32, I64, Val, Var, vec
from vtcore.tensor import Tensor, empty

ROUNDS, CUTS = 4, 4  # the range of logits is cut so often, in so many parts: a few hundred tokens of a vocabulary are left
FEW = 64  # that are taken out one after the other
SLACK = 4e-12, 2.0**-50  # of a sum of probabilities: for its exponentials, and for each token that is added
COLDEST = -700.0  # a logit that is so far under the best counts as if it were this one


@kernel("x kth width rows -> values ids scratch")
def few(k: Lanes, x: Val, kth: Val, width: Val, rows: Val, values: Val, ids: Val, scratch: Val) -> None:
    """top_k, k up to FEW."""
    for r in k.claim(rows):
        at, room = x + r * width * 4, Room.of(k, scratch, width, r, rows)
        count, _ = collect_k(k, at, width, kth, room)
        for j in k.range(r * kth, (r + 1) * kth):
            i = k.integer(room.ids + take(k, room.keys, count).cast("sext", I64) * 4)
            k.store(ids + j * 4, i.cast("trunc", I32))
            k.put_number(values + j * 4, k.number(at + i * 4))


@kernel("logits ks ps width rows slack:d -> out doubts scratch")
def nucleus(k: Lanes, logits: Val, ks: Val, ps: Val, width: Val, rows: Val, slack: Val, out: Val, doubts: Val, scratch: Val) -> None:
    """apply_top_k_top_p of contiguous rows, but for those that `doubts` [rows] names."""
    for r in k.claim(rows):
        at, to, room = logits + r * width * 4, out + r * width * 4, Room.of(k, scratch, width, r, rows)
        kth, p = k.integer(ks + r * 4), k.number(ps + r * 4).cast("fpext", F64)
        edge, doubt = k.var(NAN, I32), k.var(0, I32)
        limited = (kth > 0) & (kth < width)
        with k.when(limited):
            doubt.set(holds_nan(k, at, width))  # which the definition has above all others here
            edge.set(k.max(collect_k(k, at, width, kth, room, FINITE)[1], FINITE))
        with k.either(p < 1.0) as (cut, whole):
            with cut:
                _cut(k, at, to, width, p, slack, room, edge, doubt)
            with whole:
                _keep(k, at, to, width, edge.get())
        k.store(doubts + r * 4, doubt.get())


def _keep(k: Lanes, at: Val, to: Val, width: Val, edge: Val) -> None:
    """A copy in which what is under a key is -inf."""
    for i, count in k.vectors(width):
        v = k.floats(at + i * 4, "float32", count)
        k.put(to + i * 4, k.where(key_of(k, v) >= k.splat(edge), v, -math.inf), "float32", count)


@dataclass(frozen=True)
class Part:
    """The part of a row in which the last token lies that is kept."""

    total: Var  # of the row's weights
    above: Var  # of the weights above this part
    low: Var  # its lowest key
    high: Var  # its highest key


def _cut(k: Lanes, at: Val, to: Val, width: Val, p: Val, slack: Val, room: Room, edge: Var, doubt: Var) -> None:
    """The best of those from `edge` on, by falling value and among equals by number, while those before them sum to less than p."""
    top = top_of(k, at, width)
    part = _part(k, at, width, top, p, room, edge.get())
    n = collect(k, at, width, part.low.get(), part.high.get(), room)
    _weigh(k, room.values, n, top, room)
    last, equals, known = _last(k, room, n, top, part, p, slack)
    doubt.set(k.select(known, doubt.get(), k.lift(1, I32)))
    _keep(k, at, to, width, last + 1)
    _put_back(k, to, room, n, last, k.select(known, equals, k.lift(0)))


def _last(k: Lanes, room: Room, n: Val, top: Val, part: Part, p: Val, slack: Val) -> tuple[Val, Val, Val]:
    """The lowest key that is kept, how many of it, and whether no rounding changes that."""
    total, above = part.total.get(), part.above.get()
    wanted, sure = total * p, total * slack
    last = highest(k, lambda candidate: _reaches(above + _mass(k, room, n, candidate), wanted))
    more, one = above + _mass(k, room, n, last + 1), _weight(k, value_of(last), top)
    equals = (wanted - more) / one
    equals = k.select((equals > 0.0) & (equals < 2.0**31), equals, k.lift(0.0, F64))
    apart = k.abs(equals - (equals + maths.NEAREST - maths.NEAREST)) * one > sure
    inside = above + _mass(k, room, n, k.lift(NAN, I32)) > wanted + sure
    return last, equals.cast("fptosi", I64) + 1, (total < math.inf) & inside & (one > sure * 4.0) & apart


def _part(k: Lanes, at: Val, width: Val, top: Val, p: Val, room: Room, edge: Val) -> Part:
    """Of few all; of a whole row a part."""
    part = Part(k.var(0.0, F64), k.var(0.0, F64), k.var(edge, I32), k.var(LAST, I32))
    with k.either(edge > NAN) as (few_left, all_left):
        with few_left:
            part.total.set(_total(k, at, width, top, edge))
        with all_left:
            part.total.set(_weigh(k, at, width, top, room))
            _narrow(k, at, width, top, p, room, part)
    return part


def _narrow(k: Lanes, at: Val, width: Val, top: Val, p: Val, room: Room, part: Part) -> None:
    """Cut the range of logits a few times. Tokens of less than (1 - p) / 2V have, together, less than half of what is to go."""
    total = part.total.get()
    wanted, least = total * p, total * (k.lift(1.0, F64) - p) / (width.cast("sitofp", F64) * 2.0)
    low, high = k.var(top + maths.wide_log(k, least).cast("fptrunc", F32)), k.var(top)
    part.low.set(key_of(k, low.get()))
    for _ in k.range(ROUNDS):
        step = (high.get() - low.get()) / CUTS
        borders = [low.get() + step * float(i) for i in range(1, CUTS)]
        found = list(zip(borders, _sums_from(k, at, width, borders, room), strict=True))
        for border, mass in found:
            with k.when(mass >= wanted):
                low.set(border)
                part.low.set(key_of(k, border))
        for border, mass in reversed(found):
            with k.when(mass < wanted):
                high.set(border)
                part.high.set(key_of(k, border) - 1)
                part.above.set(mass)


def _sums_from(k: Lanes, at: Val, width: Val, borders: Sequence[Val], room: Room) -> list[Val]:
    """The weights of all logits of a row from each of some borders on."""
    kind = vec(F64, k.lanes)
    totals = [k.var(0.0, kind) for _ in borders]
    for i, count in k.vectors(width):
        v, w = k.floats(at + i * 4, "float32", count), k.load(room.weights + i * 8, kind)
        for total, border in zip(totals, borders, strict=True):
            total.set(total.get() + k.where(v >= k.splat(border), w))
    return [k.hsum(total.get()) for total in totals]


def _total(k: Lanes, at: Val, width: Val, top: Val, edge: Val) -> Val:
    """The weights of the few from a key on."""
    total = k.var(0.0, vec(F64, k.lanes))
    for i, count in k.vectors(width):
        counts = keys_at(k, at + i * 4, count) >= k.splat(edge)
        with k.when(as_bits(k, counts) > 0):
            total.set(total.get() + k.where(counts, _weight(k, k.floats(at + i * 4, "float32", count), top)))
    return k.hsum(total.get())


def _weigh(k: Lanes, at: Val, n: Val, top: Val, room: Room) -> Val:
    """Keep the weights of n logits, filled up with zeros: their sum."""
    total = k.var(0.0, vec(F64, k.lanes))
    for i, count in k.vectors(n):
        w = _weight(k, k.floats(at + i * 4, "float32", count), top)
        w = w if count is None else k.where(k.first(count), w)
        k.store(room.weights + i * 8, w)
        total.set(total.get() + w)
    return k.hsum(total.get())


def _weight(k: Lanes, v: Val, top: Val) -> Val:
    """e^(v - top) in float64."""
    wide = v.cast("fpext", F64)
    best = top.cast("fpext", F64)
    less = wide - (best if wide.type == F64 else k.splat(best))
    return maths.near_exp(k, k.max(k.lift(COLDEST, less.type), less))


def _mass(k: Lanes, room: Room, n: Val, least: Val) -> Val:
    """The weights of the kept elements from a key on."""
    total, kind = k.var(0.0, vec(F64, k.lanes)), vec(F64, k.lanes)
    for i in k.range(0, registers(k, n), k.lanes):
        counts = k.load(room.keys + i * 4, k.VI) >= k.splat(least)
        total.set(total.get() + k.where(counts, k.load(room.weights + i * 8, kind)))
    return k.hsum(total.get())


def _reaches(mass: Val, wanted: Val) -> Val:
    return (mass >= wanted) & (mass > 0.0)


def _put_back(k: Lanes, to: Val, room: Room, n: Val, last: Val, some: Val) -> None:
    """The first few of the elements of one key."""
    left = k.var(some)
    for i in k.range(0, registers(k, n), k.lanes):
        for lane in lanes_set(k, k.load(room.keys + i * 4, k.VI).eq(k.splat(last))):
            with k.when(left.get() > 0):
                k.put_number(to + k.integer(room.ids + (i + lane) * 4) * 4, k.number(room.values + (i + lane) * 4))
                left.set(left.get() - 1)


def _scratch(p: Portable, rows: int, width: int) -> Tensor:
    return empty(HOST, (min(p.team.threads, rows), Room.nbytes(width)), np.uint8)


def cut(provider: Portable, logits: Tensor, k: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """apply_top_k_top_p of contiguous float32 logits, and which of its rows are left to the definition [R]."""
    out, doubts, (rows, width) = empty(HOST, logits.shape), empty(HOST, logits.shape[:1], np.int32), logits.shape
    numbers: list[Word] = [contiguous_integers(k), float32_rows(provider, p), width, rows, SLACK[0] + SLACK[1] * width]
    provider.launch(nucleus, [logits, *numbers, out, doubts, _scratch(provider, rows, width)], 4 * logits.size)
    return out, doubts


def register(p: Portable) -> None:
    """top_k, apply_top_k_top_p."""
    provider = p

    def too_many(x: Tensor, k: int) -> str | None:
        return not_float(x=x) or (None if 0 < k <= x.shape[-1] else f"k is {k}, and a row has {x.shape[-1]} values")

    @p.kernel(ops.top_k, declines=too_many)
    def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        shape, width = (*x.shape[:-1], k), x.shape[-1]
        x, rows, values, ids = float32_rows(p, x), rows_of(x), empty(HOST, shape), empty(HOST, shape, np.int32)
        if k <= FEW:
            p.launch(few, [x, k, width, rows, values, ids, _scratch(p, rows, width)], x.size)
        else:
            p.launch(best, [x, k, width, rows, values, ids], 2 * x.size)
        return values, ids

    def unreadable(logits: Tensor, k: Tensor, p: Tensor) -> str | None:
        return not_float(logits=logits, p=p) or not_int32(k=k) or recording(provider)

    @p.kernel(ops.apply_top_k_top_p, declines=unreadable)
    def apply_top_k_top_p(logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
        x = float32_rows(provider, logits)
        out, doubts = cut(provider, x, k, p)
        if len(doubtful := np.flatnonzero(doubts.bare())):
            out.bare()[doubtful] = ops.apply_top_k_top_p.reference(*(t.bare()[doubtful] for t in (x, k, p)))
        return out
