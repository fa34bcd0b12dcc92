"""Normalisation over the last axis: the sums in float64, so that large values don't overflow, the rest in float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import dtype_of, float32_rows, not_float, rows_of
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, UNIT, Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, F64, Val, vec
from vtcore.tensor import Tensor, empty


@kernel("x weight width groups parts divisor:d eps:d offset:f -> y")
def root_mean_square(k: Lanes, x: Val, weight: Val, width: Val, groups: Val, parts: Val, divisor: Val, eps: Val, offset: Val, y: Val,
                     *, weight_dtype: str) -> None:  # fmt: skip
    """y = x / sqrt(sum(x^2) / divisor + eps) * (offset + weight), for each of `parts` runs of `width`; weight_dtype "" for no weight."""
    for part in k.share(parts):
        at, to, column = x + part * width * 4, y + part * width * 4, part % groups * width
        total = _sum(k, at, width, lambda v, count: v * v)
        scale = k.splat(_inverse_root(k, total / divisor + eps))
        for i, count in k.vectors(width):
            v = k.floats(at + i * 4, "float32", count) * scale
            k.put(to + i * 4, _weighted(k, v, weight, column + i, count, weight_dtype, offset), "float32", count)


@kernel("x y n -> z")
def add_flat(k: Lanes, x: Val, y: Val, n: Val, z: Val, *, x_dtype: str, y_dtype: str) -> None:
    """z = x + y, all contiguous."""
    for lo, hi in k.shares(n, UNIT):
        for i, count in k.vectors(hi - lo):
            v = k.floats(x + (lo + i) * SIZES[x_dtype], x_dtype, count) + k.floats(y + (lo + i) * SIZES[y_dtype], y_dtype, count)
            k.put(z + (lo + i) * 4, v, "float32", count)


@kernel("x weight bias width rows eps:d -> y")
def standardised(k: Lanes, x: Val, weight: Val, bias: Val, width: Val, rows: Val, eps: Val, y: Val,
                 *, weight_dtype: str, bias_dtype: str) -> None:  # fmt: skip
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, row by row."""
    n = width.cast("sitofp", F64)
    for row in k.share(rows):
        at, to = x + row * width * 4, y + row * width * 4
        mean = k.splat(_sum(k, at, width, lambda v, count: v) / n)
        variance = _sum(k, at, width, partial(_squared_distance, k, mean)) / n
        scale = k.splat(_inverse_root(k, variance + eps))
        for i, count in k.vectors(width):
            v = (_doubles(k, at + i * 4, count) - mean).cast("fptrunc", F32) * scale
            v = _weighted(k, v, weight, i, count, weight_dtype, k.lift(0.0, F32))
            v = v + k.floats(bias + i * SIZES[bias_dtype], bias_dtype, count) if bias_dtype else v
            k.put(to + i * 4, v, "float32", count)


def _doubles(k: Lanes, address: Val, count: Val | None) -> Val:
    return k.floats(address, "float32", count).cast("fpext", F64)


def _squared_distance(k: Lanes, mean: Val, v: Val, count: Val | None) -> Val:
    distance = v - mean
    return distance * distance if count is None else k.where(k.first(count), distance * distance)


def _sum(k: Lanes, at: Val, width: Val, term: Callable[[Val, Val | None], Val]) -> Val:
    """The float64 sum over a row of term(values, how many of them count): zeros stand behind the row's end."""
    total = k.var(k.lift(0.0, vec(F64, k.lanes)))
    total.set(0.0)
    for i, count in k.vectors(width):
        total.set(total.get() + term(_doubles(k, at + i * 4, count), count))
    return k.hsum(total.get())


def _inverse_root(k: Lanes, v: Val) -> Val:
    return (k.lift(1.0, F64) / k.sqrt(v)).cast("fptrunc", F32)


def _weighted(k: Lanes, v: Val, weight: Val, i: Val, count: Val | None, dtype: str, offset: Val) -> Val:
    return v * (k.floats(weight + i * SIZES[dtype], dtype, count) + k.splat(offset)) if dtype else v


def _vector(p: Portable, v: Tensor | None) -> tuple[Tensor | None, str]:
    """A weight or bias [H] as kernels read it, and its dtype ("" for none)."""
    if v is not None and v.strides != (1,):
        v = float32_rows(p, v)
    return v, "" if v is None else dtype_of(v)


def rms(p: Portable, x: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int, *, mean: bool = True) -> Tensor:
    """The root-mean-square norm (or, without the mean, the L2 norm) of contiguous float32 x."""
    out = empty(HOST, x.shape)
    weight, dtype = _vector(p, weight)
    width = x.shape[-1] // groups
    if out.size:
        words = [x, weight, width, groups, rows_of(x) * groups, float(width) if mean else 1.0, eps, offset, out]
        p.launch(root_mean_square, words, 2 * x.size, weight_dtype=dtype)
    return out


def register(p: Portable) -> None:
    """The norms."""

    @p.kernel(ops.rms_norm, declines=lambda x, weight, eps, offset, groups: not_float(x=x, weight=weight))
    def rms_norm(x: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> Tensor:
        return rms(p, float32_rows(p, x), weight, eps, offset, groups)

    @p.kernel(ops.l2_norm, declines=lambda x, eps: not_float(x=x))
    def l2_norm(x: Tensor, eps: float) -> Tensor:
        return rms(p, float32_rows(p, x), None, eps, 0.0, 1, mean=False)

    @p.kernel(
        ops.add_rms_norm,
        declines=lambda x, residual, weight, eps, offset, groups: not_float(x=x, residual=residual, weight=weight),
    )
    def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> tuple[Tensor, Tensor]:
        x, residual = (t if t.contiguous else float32_rows(p, t) for t in (x, residual))
        total = empty(HOST, x.shape)
        p.launch(add_flat, [x, residual, x.size, total], x.size, x_dtype=dtype_of(x), y_dtype=dtype_of(residual))
        return rms(p, total, weight, eps, offset, groups), total

    @p.kernel(ops.layer_norm, declines=lambda x, weight, bias, eps: not_float(x=x, weight=weight, bias=bias))
    def layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
        x = float32_rows(p, x)
        out = empty(HOST, x.shape)
        (weight, weight_dtype), (bias, bias_dtype) = _vector(p, weight), _vector(p, bias)
        if out.size:
            words = [x, weight, bias, x.shape[-1], rows_of(x), eps, out]
            p.launch(standardised, words, 3 * x.size, weight_dtype=weight_dtype, bias_dtype=bias_dtype)
        return out
