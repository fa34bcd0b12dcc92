"""Bent lines: a value kept within limits, and xIELU."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, UNIT, Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty

COST_OF_A_CURVE = 6  # work of an element
NEAR = 0.34  # where the polynomial of exp is good: up to ln(2) / 2


@kernel("x n limit:f -> y")
def clamped(k: Lanes, x: Val, n: Val, limit: Val, y: Val, *, dtype: str) -> None:
    """y = x within -limit and limit; what is not a number stays so."""
    top = k.splat(limit)
    for lo, hi in k.shares(n, UNIT):
        for i, count in k.vectors(hi - lo):
            v = k.floats(x + (lo + i) * SIZES[dtype], dtype, count)
            v = k.select(v > top, top, k.select(v < -top, -top, v))
            k.put(y + (lo + i) * 4, v, "float32", count)


@kernel("x rise fall slope eps n -> y")
def bent(k: Lanes, x: Val, rise: Val, fall: Val, slope: Val, eps: Val, n: Val, y: Val, *, dtype: str) -> None:
    """y = xielu(x); the four numbers are float32 in memory."""
    up, down, line, edge = (k.splat(k.number(address)) for address in (rise, fall, slope, eps))
    for lo, hi in k.shares(n, UNIT):
        for i, count in k.vectors(hi - lo):
            v = k.floats(x + (lo + i) * SIZES[dtype], dtype, count)
            low = _fall(k, v, k.select(v > edge, edge, v)) * (line + down)
            k.put(y + (lo + i) * 4, k.fma(v, line, k.select(v > 0.0, v * v * up, low)), "float32", count)


def _fall(k: Lanes, v: Val, m: Val) -> Val:
    """e^m - 1 - v, which near zero is small against each of its parts."""
    near = m - v + maths.polynomial(k, m, maths.EXP) * m * m
    return k.select(k.abs(m) < NEAR, near, maths.exp(k, m) - 1.0 - v)


def register(p: Portable) -> None:
    """clamp and xielu."""

    @p.kernel(ops.clamp, declines=lambda x, limit: not_float(x=x))
    def clamp(x: Tensor, limit: float) -> Tensor:
        x = x if x.contiguous else float32_rows(p, x)
        y = empty(HOST, x.shape)
        p.launch(clamped, [x, x.size, limit, y], x.size, dtype=dtype_of(x))
        return y

    @p.kernel(ops.xielu, declines=lambda x, rise, fall, slope, eps: not_float(x=x, rise=rise, fall=fall, slope=slope, eps=eps))
    def xielu(x: Tensor, rise: Tensor, fall: Tensor, slope: Tensor, eps: Tensor) -> Tensor:
        x = x if x.contiguous else float32_rows(p, x)
        y = empty(HOST, x.shape)
        numbers = [float32_rows(p, t) for t in (rise, fall, slope, eps)]
        p.launch(bent, [x, *numbers, x.size, y], COST_OF_A_CURVE * x.size, dtype=dtype_of(x))
        return y
