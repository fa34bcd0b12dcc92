"""Over the last axis of each row: softmax, its logarithm, and the largest value's place."""

from __future__ import annotations

import math

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import float32_rows, not_float, rows_of
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, I32, Val
from vtcore.tensor import Tensor, empty

LAST = 0x7FFFFFFF  # an index behind all others


@kernel("x width rows -> y")
def shares(k: Lanes, x: Val, width: Val, rows: Val, y: Val, *, logarithm: bool) -> None:
    """softmax, or log_softmax, of contiguous float32 rows."""
    for row in k.share(rows):
        shares_of(k, x + row * width * 4, y + row * width * 4, width, logarithm)


def shares_of(k: Lanes, at: Val, to: Val, width: Val, logarithm: bool = False) -> None:
    """softmax, or log_softmax, of one row."""
    top = _finite_top(k, top_of(k, at, width))
    total = k.var(k.const(0.0))
    total.set(0.0)
    for i, count in k.vectors(width):
        e = maths.exp(k, k.floats(at + i * 4, "float32", count) - k.splat(top))
        total.set(total.get() + (e if count is None else k.where(k.first(count), e)))
        if not logarithm:
            k.put(to + i * 4, e, "float32", count)
    _finish(k, at, to, width, top, k.hsum(total.get()), logarithm)


def _finish(k: Lanes, at: Val, to: Val, width: Val, top: Val, total: Val, logarithm: bool) -> None:
    total = k.select(total.eq(0.0), k.lift(1.0, F32), total)  # nothing but -inf
    if logarithm:
        less = k.splat(k.select(total.unordered(), total, maths.log(k, total)))
        for i, count in k.vectors(width):
            k.put(to + i * 4, k.floats(at + i * 4, "float32", count) - k.splat(top) - less, "float32", count)
    else:
        factor = k.splat(k.lift(1.0, F32) / total)
        for i, count in k.vectors(width):
            k.put(to + i * 4, k.floats(to + i * 4, "float32", count) * factor, "float32", count)


def top_of(k: Lanes, at: Val, width: Val) -> Val:
    """The largest value of a row that is a number."""
    best = k.var(k.const(-math.inf))
    best.set(-math.inf)
    for i, count in k.vectors(width):
        v = k.floats(at + i * 4, "float32", count)
        v = v if count is None else k.where(k.first(count), v, -math.inf)
        best.set(k.max(v, best.get()))
    return k.hmax(best.get())


def holds_nan(k: Lanes, at: Val, width: Val) -> Val:
    """1 (int32) where a row holds something that is not a number, else 0."""
    found = k.var(k.ints(0))
    for i, count in k.vectors(width):
        v = k.floats(at + i * 4, "float32", count)
        found.set(found.get() | k.select(v.unordered(), k.ints(1), k.ints(0)))
    return k.fold(found.get(), lambda a, b: a | b)


def _finite_top(k: Lanes, top: Val) -> Val:
    return k.select(top.eq(-math.inf), k.lift(0.0, F32), top)


@kernel("x width rows -> y")
def largest(k: Lanes, x: Val, width: Val, rows: Val, y: Val) -> None:
    """The index of each row's largest value, the lowest on ties; of the first that is not a number, where there is one."""
    for row in k.share(rows):
        at = x + row * width * 4
        top = top_of(k, at, width)
        where, nowhere = k.var(k.ints(LAST)), k.var(k.ints(LAST))
        where.set(LAST)
        nowhere.set(LAST)
        for i, count in k.vectors(width):
            v = k.floats(at + i * 4, "float32", count)
            index = k.splat(i.cast("trunc", I32)) + k.iota()
            v = v if count is None else k.where(k.first(count), v, -math.inf)
            index = index if count is None else k.min(index, k.splat((width - 1).cast("trunc", I32)))
            where.set(k.min(k.select(v.eq(k.splat(top)), index, k.ints(LAST)), where.get()))
            nowhere.set(k.min(k.select(v.unordered(), index, k.ints(LAST)), nowhere.get()))
        first = k.hmin(nowhere.get())
        k.store(y + row * 4, k.select(first < LAST, first, k.hmin(where.get())))


def _shares(p: Portable, x: Tensor, logarithm: bool) -> Tensor:
    x = float32_rows(p, x)
    out = empty(HOST, x.shape)
    if out.size:
        p.launch(shares, [x, x.shape[-1], rows_of(x), out], 8 * x.size, logarithm=logarithm)
    return out


def register(p: Portable) -> None:
    """softmax, log_softmax, argmax."""

    @p.kernel(ops.softmax, declines=lambda x: not_float(x=x))
    def softmax(x: Tensor) -> Tensor:
        return _shares(p, x, False)

    @p.kernel(ops.log_softmax, declines=lambda x: not_float(x=x))
    def log_softmax(x: Tensor) -> Tensor:
        return _shares(p, x, True)

    @p.kernel(ops.argmax, declines=lambda x: not_float(x=x) or (None if x.shape[-1] else "x has no values to choose from"))
    def argmax(x: Tensor) -> Tensor:
        x = float32_rows(p, x)
        out = empty(HOST, x.shape[:-1], np.int32)
        if out.size:
            p.launch(largest, [x, x.shape[-1], rows_of(x), out], 2 * x.size)
        return out
