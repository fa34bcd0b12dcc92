"""Norms: one row at a time, its sums in one order whatever stands beside it."""

from __future__ import annotations

from collections.abc import Callable

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import dtype_of, float32_rows, not_float, rows_of
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty

COST = 3  # work of an element


def sum_of(k: Lanes, x: Val, n: Val, value: Callable[[Val], Val] = lambda v: v, minus: Val | None = None) -> Val:
    """The sum of value(v) (with `minus`: of value(v - minus)) over the n floats at x: by lanes, then by halves."""
    total = k.var(k.const(0.0))
    for i, count in k.vectors(n):
        v = k.floats(x + i * 4, "float32", count)
        part = value(v if minus is None else v - minus)
        total.set(total.get() + (part if count is None else k.where(k.first(count), part)))
    return k.hsum(total.get())


def over(n: Val) -> Val:
    """1 / n as a float."""
    k = n.k
    one: Val = k.lift(1.0, k.VF.element)  # type: ignore[attr-defined]
    return one / n.cast("sitofp", one.type)


@kernel("x other weight rows groups width eps:f offset:f -> y total")
def rms(k: Lanes, x: Val, other: Val, weight: Val, rows: Val, groups: Val, width: Val, eps: Val, offset: Val, y: Val, total: Val,
        *, dtype: str, add: bool) -> None:  # fmt: skip
    """Each of rows * groups parts of `width` floats, over its root mean square, times offset + weight. add: of total = x + other."""
    for part in k.range(*k.split(rows * groups)):
        at = part * width * 4
        source = x + at
        if add:
            for i, count in k.vectors(width):
                total_part = k.floats(x + at + i * 4, "float32", count) + k.floats(other + at + i * 4, "float32", count)
                k.put(total + at + i * 4, total_part, "float32", count)
            source = total + at
        squares = sum_of(k, source, width, lambda v: v * v)
        factor = k.splat(k.lift(1.0, squares.type) / k.sqrt(k.fma(squares, over(width), eps)))
        for i, count in k.vectors(width):
            v = k.floats(source + i * 4, "float32", count) * factor
            if dtype:
                v = v * (k.floats(weight + (part % groups * width + i) * SIZES[dtype], dtype, count) + k.splat(offset))
            k.put(y + at + i * 4, v, "float32", count)


@kernel("x weight bias rows width eps:f -> y")
def layer(k: Lanes, x: Val, weight: Val, bias: Val, rows: Val, width: Val, eps: Val, y: Val, *, weight_dtype: str, bias_dtype: str) -> None:
    """(x - mean) over its deviation, times weight, plus bias; the deviation from a second pass over the differences."""
    for row in k.range(*k.split(rows)):
        at = row * width * 4
        mean = k.splat(sum_of(k, x + at, width) * over(width))
        squares = sum_of(k, x + at, width, lambda v: v * v, mean)
        factor = k.splat(k.lift(1.0, squares.type) / k.sqrt(k.fma(squares, over(width), eps)))
        for i, count in k.vectors(width):
            v = (k.floats(x + at + i * 4, "float32", count) - mean) * factor
            if weight_dtype:
                v = v * k.floats(weight + i * SIZES[weight_dtype], weight_dtype, count)
            if bias_dtype:
                v = v + k.floats(bias + i * SIZES[bias_dtype], bias_dtype, count)
            k.put(y + at + i * 4, v, "float32", count)


@kernel("x rows width eps:f -> y")
def l2(k: Lanes, x: Val, rows: Val, width: Val, eps: Val, y: Val) -> None:
    """x over the root of its sum of squares."""
    for row in k.range(*k.split(rows)):
        at = row * width * 4
        squares = sum_of(k, x + at, width, lambda v: v * v)
        factor = k.splat(k.lift(1.0, squares.type) / k.sqrt(squares + eps))
        for i, count in k.vectors(width):
            k.put(y + at + i * 4, k.floats(x + at + i * 4, "float32", count) * factor, "float32", count)


def _vector(p: Portable, weight: Tensor | None) -> tuple[Tensor | None, str]:
    """A weight that the kernels can read in order, and its dtype; nothing, and no name."""
    if weight is None:
        return None, ""
    weight = weight if weight.contiguous else float32_rows(p, weight)
    return weight, dtype_of(weight)


def register(p: Portable) -> None:
    """The ops of ops/norm.py."""

    @p.kernel(ops.rms_norm, declines=lambda x, weight, **_: not_float(x=x, weight=weight))
    def rms_norm(x: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> Tensor:
        x, (weight, dtype) = float32_rows(p, x), _vector(p, weight)
        y = empty(HOST, x.shape)
        words = (x, None, weight, rows_of(x), groups, x.shape[-1] // groups, eps, offset, y, None)
        p.launch(rms, words, COST * x.size, dtype=dtype, add=False)
        return y

    @p.kernel(ops.add_rms_norm, declines=lambda x, residual, weight, **_: not_float(x=x, residual=residual, weight=weight))
    def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> tuple[Tensor, Tensor]:
        x, residual, (weight, dtype) = float32_rows(p, x), float32_rows(p, residual), _vector(p, weight)
        y, total = empty(HOST, x.shape), empty(HOST, x.shape)
        words = (x, residual, weight, rows_of(x), groups, x.shape[-1] // groups, eps, offset, y, total)
        p.launch(rms, words, COST * x.size, dtype=dtype, add=True)
        return y, total

    @p.kernel(ops.layer_norm, declines=lambda x, weight, bias, **_: not_float(x=x, weight=weight, bias=bias))
    def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        x, (weight, weight_dtype), (bias, bias_dtype) = float32_rows(p, x), _vector(p, weight), _vector(p, bias)
        y = empty(HOST, x.shape)
        words = (x, weight, bias, rows_of(x), x.shape[-1], eps, y)
        p.launch(layer, words, COST * x.size, weight_dtype=weight_dtype, bias_dtype=bias_dtype)
        return y

    @p.kernel(ops.l2_norm, declines=lambda x, **_: not_float(x=x))
    def l2_norm(x: Tensor, eps: float) -> Tensor:
        x = float32_rows(p, x)
        y = empty(HOST, x.shape)
        p.launch(l2, (x, rows_of(x), x.shape[-1], eps, y), COST * x.size)
        return y
