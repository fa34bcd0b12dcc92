"""Over a vocabulary: the largest, and shares that sum to one."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.op import Op
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import float32_rows, not_float, rows_of
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.norm import sum_of
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, I32, Val
from vtcore.tensor import Tensor, empty

NONE = 0x7FFFFFFF  # an index behind every other
LOWEST = -3.4028234663852886e38


@kernel("x rows width -> best where")
def largest(k: Lanes, x: Val, rows: Val, width: Val, best: Val, where: Val, *, segments: int) -> None:
    """The largest of each of `segments` parts of every row, and its index, the lowest among equals; not-a-number is larger than all."""
    size = (width + (segments - 1)) // segments
    for part in k.range(*k.split(rows * segments)):
        begin = k.min(part % segments * size, width)
        end = k.min(begin + size, width)
        at, top, index = x + part // segments * width * 4, k.var(k.const(LOWEST)), k.var(k.ints(NONE))
        for i, count in k.vectors(end - begin):
            v = k.floats(at + (begin + i) * 4, "float32", count)
            here = k.splat((begin + i).cast("trunc", I32)) + k.iota()
            better = _beats(k, v, top.get()) | (index.get().eq(NONE) & (v >= LOWEST))
            better = better if count is None else better & k.first(count)
            now, before = index.get(), top.get()
            index.set(k.select(better, here, now))
            top.set(k.select(better, v, before))
        _store_best(k, top.get(), index.get(), best + part * 4, where + part * 4)


def _beats(k: Lanes, v: Val, top: Val) -> Val:
    """v is larger, or the first that is no number."""
    real = k.select(top.unordered(), k.lift(0, v.unordered().type), k.lift(1, v.unordered().type))
    return (v > top) | (v.unordered() & real)


def _store_best(k: Lanes, top: Val, index: Val, best: Val, where: Val) -> None:
    """Of the lanes' best the largest, at the lowest index; without one (all are -inf) the first index that there is."""
    lost = top.unordered()
    rank = k.select(lost, k.const(float("inf")), k.select(index.eq(NONE), k.const(float("-inf")), top))
    found = k.hmax(rank)
    has = k.any(lost).cast("zext", I32)
    only_lost = k.splat(has).eq(1)
    candidates = k.select(only_lost, k.select(lost, index, k.ints(NONE)), k.select(rank.eq(k.splat(found)), index, k.ints(NONE)))
    k.store(where, k.hmin(candidates))
    k.put_number(best, k.select(has.eq(1), k.lift(float("nan"), F32), found))


@kernel("best where rows -> y")
def first_of(k: Lanes, best: Val, where: Val, rows: Val, y: Val, *, segments: int) -> None:
    """The best of each row's segments, the first among equals. A row of -inf alone gives 0."""
    for row in k.range(rows):
        top, index = k.var(k.lift(float("-inf"), F32)), k.var(k.lift(NONE, I32))
        for s in range(segments):
            v, here = k.number(best + (row * segments + s) * 4), k.load(where + (row * segments + s) * 4, I32)
            old, now = top.get(), index.get()
            real = k.select(old.unordered(), k.lift(0, v.unordered().type), k.lift(1, v.unordered().type))
            better = (v > old) | (v.unordered() & real)
            top.set(k.select(better, v, old))
            index.set(k.select(better, here, now))
        k.store(y + row * 4, k.select(index.get().eq(NONE), k.lift(0, I32), index.get()))


@kernel("x rows width -> y")
def shares(k: Lanes, x: Val, rows: Val, width: Val, y: Val, *, logarithm: bool) -> None:
    """exp(x - largest) over its sum, or its logarithm. A row of -inf alone: zeros, or as it was."""
    for row in k.range(*k.split(rows)):
        at, to = x + row * width * 4, y + row * width * 4
        top = k.var(k.const(float("-inf")))
        for i, count in k.vectors(width):
            v = k.floats(at + i * 4, "float32", count)
            v = v if count is None else k.where(k.first(count), v, float("-inf"))
            now = top.get()
            top.set(k.select((v > now) | v.unordered(), v, now))
        peak = k.hmax(top.get())
        base = k.select(peak.eq(float("-inf")), k.lift(0.0, F32), peak)
        total = sum_of(k, at, width, lambda v: maths.exp(k, v), k.splat(base))
        empty_row = total.eq(0.0)
        safe = k.select(empty_row, k.lift(1.0, F32), total)
        factor, shift = (
            k.splat(k.lift(1.0, F32) / safe),
            k.splat(k.select(safe.unordered(), safe, maths.log(k, safe))) if logarithm else None,
        )
        for i, count in k.vectors(width):
            v = k.floats(at + i * 4, "float32", count) - k.splat(base)
            k.put(to + i * 4, maths.exp(k, v) * factor if shift is None else v - shift, "float32", count)


SEGMENTS = 8  # parts of a row that are searched side by side: always as many, so that ties fall the same way on any number of threads


def register(p: Portable) -> None:
    """argmax, softmax and log_softmax."""

    @p.kernel(ops.argmax, declines=lambda x: not_float(x=x))
    def argmax(x: Tensor) -> Tensor:
        x, rows = float32_rows(p, x), rows_of(x)
        best, where, y = empty(HOST, (rows, SEGMENTS)), empty(HOST, (rows, SEGMENTS), "int32"), empty(HOST, x.shape[:-1], "int32")
        p.launch(largest, (x, rows, x.shape[-1], best, where), x.size, segments=SEGMENTS)
        p.launch(first_of, (best, where, rows, y), rows * SEGMENTS, segments=SEGMENTS)
        return y

    for op, logarithm in ((ops.softmax, False), (ops.log_softmax, True)):
        _register_shares(p, op, logarithm)


def _register_shares(p: Portable, op: Op, logarithm: bool) -> None:
    @p.kernel(op, declines=lambda x: not_float(x=x))
    def run(x: Tensor) -> Tensor:
        x = float32_rows(p, x)
        y = empty(HOST, x.shape)
        p.launch(shares, (x, rows_of(x), x.shape[-1], y), 8 * x.size, logarithm=logarithm)
        return y
