"""random_sample: the race of the definition, run only between those who can win it.

For u in (0, 1) it holds that 1 - u <= -log(u) <= (1 - u) / u. So bounds of prob / -log(u) need no logarithm, and almost every token's
upper bound is under the lower bound of another one. NumPy computes the few logarithms that are left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.largest import as_bits, lanes_set
from vtcore.providers.portable.kernels.plain.kernel import recording
from vtcore.providers.portable.kernels.plain.words import Array
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F64, I32, I64, Val, Var, vec
from vtcore.tensor import Tensor, empty, of

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
ONE = 0x3FF0000000000000  # the bits of 1.0
SLACK = 1 - 1e-9  # of a bound, for roundings
MOST = 64  # tokens of a row that may still win; where there are more, the definition says who does


@dataclass(frozen=True)
class Race:
    """Those of a row who may win."""

    ids: Val
    uniforms: Val
    count: Var
    best: Var  # what somebody reaches at least
    open: Var  # whether others may still come


@kernel("probs seeds steps width rows -> counts ids uniforms")
def race(k: Lanes, probs: Val, seeds: Val, steps: Val, width: Val, rows: Val, counts: Val, ids: Val, uniforms: Val) -> None:
    """For each row: how many tokens may win (0: the definition has to say), which [R MOST], and their u."""
    for r in k.claim(rows):
        start = _mixed(_mixed(k.load(seeds + r * 8, I64)) + k.load(steps + r * 8, I64))
        entered = Race(ids + r * (MOST * 4), uniforms + r * (MOST * 8), k.var(0), k.var(0.0, F64), k.var(1))
        at, numbers = probs + r * width * 4, Val(k, ir.Constant(vec(I64, k.lanes), list(range(k.lanes))))
        for i, count in k.vectors(width):
            prob = k.floats(at + i * 4, "float32", count)
            with k.when(as_bits(k, _positive(prob)) > 0):
                short = _short(k, _mixed(numbers + k.splat(start + i)))
                bar = k.splat(entered.best.get() * SLACK) * short
                for lane in lanes_set(k, ((prob.cast("fpext", F64) >= bar) & (prob > 0.0)) | prob.unordered()):
                    _enter(k, k.number(at + (i + lane) * 4).cast("fpext", F64), i + lane, _mixed(start + i + lane), entered)
        k.store(counts + r * 4, entered.count.get().cast("trunc", I32))


def _positive(prob: Val) -> Val:
    return (prob > 0.0) | prob.unordered()


def _mixed(z: Val) -> Val:
    """SplitMix64: the next state, finished."""
    z = z + GOLDEN
    z = (z ^ (z >> 30)) * FIRST
    z = (z ^ (z >> 27)) * SECOND
    return z ^ (z >> 31)


def _short(k: Lanes, mixed: Val) -> Val:
    """1 - u, exactly."""
    one_more = ((mixed >> 12) | ONE).cast("bitcast", F64)
    return k.like(one_more, 2.0) - one_more - 2.0**-53


def _enter(k: Lanes, prob: Val, i: Val, mixed: Val, race: Race) -> None:
    """Let a token in who may win. The first that is not a number wins, whoever came before; of too many, none is kept."""
    short = _short(k, mixed)
    u = k.like(short, 1.0) - short
    with k.when((race.open.get() > 0) & ((prob / short >= race.best.get()) | prob.unordered())):
        n = race.count.get()
        with k.either(n < MOST) as (room, none):
            with room:
                k.store(race.ids + n * 4, i.cast("trunc", I32))
                k.store(race.uniforms + n * 8, u)
                race.count.set(n + 1)
                race.best.set(k.max(prob * u / short * SLACK, race.best.get()))
                race.open.set(k.select(prob.unordered(), k.lift(0), k.lift(1)))
            with none:
                race.count.set(0)
                race.open.set(0)


def winners(probs: Array, counts: Array, ids: Array, uniforms: Array) -> Array:
    """Who wins the race of each row of [R V]: NumPy's logarithms decide, as in the definition. Of one without entries: anybody."""
    taking_part = np.arange(MOST) < counts[:, None]
    ids = np.where(taking_part, ids, 0)
    chances = np.take_along_axis(probs, ids, 1).astype(np.float64)
    reached = np.where(taking_part, chances / -np.log(np.where(taking_part, uniforms, 0.5)), -np.inf)
    return np.asarray(np.take_along_axis(ids, reached.argmax(1)[:, None], 1)[:, 0])


def register(p: Portable) -> None:
    """random_sample."""

    @p.kernel(ops.random_sample, declines=lambda probs, **_: not_float(probs=probs) or recording(p))
    def random_sample(probs: Tensor, seeds: Tensor, steps: Tensor) -> Tensor:
        rows, width = probs.shape
        x, out = float32_rows(p, probs), np.zeros(rows, np.int32)
        keys = [t.bare().astype(np.uint64) for t in (seeds, steps)]
        results = empty(HOST, (rows,), np.int32), empty(HOST, (rows, MOST), np.int32), empty(HOST, (rows, MOST), np.float64)
        p.launch(race, [x, *map(of, keys), width, rows, *results], 4 * x.size)
        values, decided = x.bare(), results[0].bare() > 0
        if decided.any():
            out[:] = winners(values, *(t.bare() for t in results))
        if not decided.all():
            out[~decided] = ops.random_sample.reference(values[~decided], *(key[~decided] for key in keys))
        return of(out)
