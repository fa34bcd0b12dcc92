"""apply_temperature and apply_min_p, row by row of [R V]."""

from __future__ import annotations

import math

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.ops.logits import GREEDY
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.plain.kernel import recording
from vtcore.providers.portable.kernels.plain.words import Array
from vtcore.providers.portable.kernels.rows import holds_nan, top_of
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, F64, Val
from vtcore.tensor import Tensor, empty, of

MARGIN = 1e-9  # of the logarithm of a ratio: beyond it no rounding of an exponential changes a comparison


@kernel("logits temperature width rows -> out")
def cooled(k: Lanes, logits: Val, temperature: Val, width: Val, rows: Val, out: Val) -> None:
    """apply_temperature. A quotient in float32 is that in float64, rounded: it has more than twice as many digits (Figueroa, 1995)."""
    for r in k.share(rows):
        at, to, divisor = logits + r * width * 4, out + r * width * 4, k.number(temperature + r * 4)
        divisor = k.splat(k.select(divisor.cast("fpext", F64) < GREEDY, k.lift(1.0, F32), divisor))
        for i, count in k.vectors(width):
            k.put(to + i * 4, k.floats(at + i * 4, "float32", count) / divisor, "float32", count)


@kernel("logits bounds width rows -> doubts out")
def likely(k: Lanes, logits: Val, bounds: Val, width: Val, rows: Val, doubts: Val, out: Val) -> None:
    """apply_min_p by bounds [R 2] of logit - best: masked under the lower one; one up to the upper one makes its row doubtful. In a row
    that holds NaN all are kept; the best itself is never in doubt."""
    for r in k.share(rows):
        at, to = logits + r * width * 4, out + r * width * 4
        low, high = (k.splat(k.load(bounds + r * 16 + b, F64)) for b in (0, 8))
        best = k.select(holds_nan(k, at, width) > 0, k.lift(math.nan, F32), top_of(k, at, width))
        doubt = k.var(k.ints(0))
        for i, count in k.vectors(width):
            v = k.floats(at + i * 4, "float32", count)
            less = v.cast("fpext", F64) - k.splat(best.cast("fpext", F64))
            k.put(to + i * 4, k.select(less < low, k.const(-math.inf), v), "float32", count)
            near = (less >= low) & (less <= high) & (less < 0.0)
            near = near if count is None else near & k.first(count)
            doubt.set(doubt.get() | k.select(near, k.ints(1), k.ints(0)))
        k.store(doubts + r * 4, k.fold(doubt.get(), lambda a, b: a | b))


def _bounds(min_p: Array) -> Array:
    """Where exp(logit - best) passes min_p, give or take [R 2]. Of 0 nothing is under it, and nothing in doubt."""
    with np.errstate(divide="ignore"):
        edge = np.log(min_p.astype(np.float64))
    return np.stack([edge - MARGIN, np.where(min_p > 0, edge + MARGIN, np.nan)], 1)


def register(p: Portable) -> None:
    """apply_temperature, apply_min_p."""

    @p.kernel(ops.apply_temperature, declines=lambda **floats: not_float(**floats))
    def apply_temperature(logits: Tensor, temperature: Tensor) -> Tensor:
        x, out, (rows, width) = float32_rows(p, logits), empty(HOST, logits.shape), logits.shape
        p.launch(cooled, [x, float32_rows(p, temperature), width, rows, out], out.size)
        return out

    @p.kernel(ops.apply_min_p, declines=lambda **floats: not_float(**floats) or recording(p))
    def apply_min_p(logits: Tensor, min_p: Tensor) -> Tensor:
        x, out, (rows, width) = float32_rows(p, logits), empty(HOST, logits.shape), logits.shape
        doubts = empty(HOST, (rows,), np.int32)
        p.launch(likely, [x, of(_bounds(min_p.bare())), width, rows, doubts, out], out.size)
        if len(doubtful := np.flatnonzero(doubts.bare())):
            out.bare()[doubtful] = ops.apply_min_p.reference(x.bare()[doubtful], min_p.bare()[doubtful])
        return out
