"""Rotary position: the angles of a batch (in float64: positions may be in the millions), and the turning of heads by them."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous_integers, dtype_of, float32_rows, not_float, not_integer
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, F64, Val
from vtcore.tensor import Tensor, empty


@kernel("positions frequencies axes tokens columns leading every scale:d -> y")
def angles(k: Lanes, positions: Val, frequencies: Val, axes: Val, tokens: Val, columns: Val, leading: Val, every: Val, scale: Val,
           y: Val, *, dtype: str, axes_dtype: str) -> None:  # fmt: skip
    """cos and sin of position * frequency (a float32 product), times scale: y [tokens, 2, columns]; axes_dtype "" for row 0 alone."""
    for t in k.range(*k.split(tokens)):
        for f in k.range(columns):
            axis = k.clamp(k.integer(axes + f * SIZES[axes_dtype], axes_dtype), 0, leading - 1) if axes_dtype else k.lift(0)
            position = k.integer(positions + (axis * tokens + t) * SIZES[dtype], dtype)
            position = (position.cast("sitofp", F64) / every.cast("sitofp", F64)).cast("fptosi", position.type) * every
            angle = (position.cast("sitofp", F32) * k.number(frequencies + f * 4)).cast("fpext", F64)
            for i, part in enumerate(maths.turn(k, angle)):
                k.put_number(y + ((t * 2 + i) * columns + f) * 4, (part * scale).cast("fptrunc", F32))


@kernel("x angles tokens heads width half t_step h_step sign:f -> y")
def turn(k: Lanes, x: Val, angles: Val, tokens: Val, heads: Val, width: Val, half: Val, t_step: Val, h_step: Val, sign: Val, y: Val,
         *, dtype: str, interleaved: bool) -> None:  # fmt: skip
    """Pairs of x [tokens, heads, width] turned: (a cos - b sin, b cos + a sin), sin times sign; y contiguous."""
    size = SIZES[dtype]
    for task in k.range(*k.split(tokens * heads)):
        t = task // heads
        source, target = x + (t * t_step + task % heads * h_step) * size, y + task * width * 4
        cosines, sines = angles + t * 2 * half * 4, angles + (t * 2 + 1) * half * 4
        if interleaved:
            _interleaved(k, source, target, cosines, sines, half, sign, dtype)
        else:
            _halves(k, source, target, cosines, sines, half, sign, dtype)
        for i, count in k.vectors(width - 2 * half):
            k.put(target + (2 * half + i) * 4, k.floats(source + (2 * half + i) * size, dtype, count), "float32", count)


def _halves(k: Lanes, source: Val, target: Val, cosines: Val, sines: Val, half: Val, sign: Val, dtype: str) -> None:
    size = SIZES[dtype]
    for i, count in k.vectors(half):
        a, b = k.floats(source + i * size, dtype, count), k.floats(source + (half + i) * size, dtype, count)
        cos, sin = k.floats(cosines + i * 4, "float32", count), k.floats(sines + i * 4, "float32", count) * k.splat(sign)
        k.put(target + i * 4, a * cos - b * sin, "float32", count)
        k.put(target + (half + i) * 4, b * cos + a * sin, "float32", count)


def _interleaved(k: Lanes, source: Val, target: Val, cosines: Val, sines: Val, half: Val, sign: Val, dtype: str) -> None:
    size, n = SIZES[dtype], k.lanes
    whole = half - half % n
    for i in k.range(0, whole, n):
        first, second = (k.floats(source + (2 * i + j * n) * size, dtype) for j in (0, 1))
        a, b = (k.shuffle(first, second, range(j, 2 * n, 2)) for j in (0, 1))
        cos, sin = k.floats(cosines + i * 4), k.floats(sines + i * 4) * k.splat(sign)
        out = (a * cos - b * sin, b * cos + a * sin)
        for j in (0, 1):
            k.put(target + (2 * i + j * n) * 4, k.shuffle(*out, [lane for p in range(j * n // 2, (j + 1) * n // 2) for lane in (p, n + p)]))
    for i in k.range(whole, half):
        x, y = k.number(source + 2 * i * size, dtype), k.number(source + (2 * i + 1) * size, dtype)
        cos, sin = k.number(cosines + i * 4), k.number(sines + i * 4) * sign
        k.put_number(target + 2 * i * 4, x * cos - y * sin)
        k.put_number(target + (2 * i + 1) * 4, y * cos + x * sin)


def register(p: Portable) -> None:
    """rope_angles and rotate."""

    def angles_declines(positions: Tensor, frequencies: Tensor, scale: float, axes: Tensor | None, every: int) -> str | None:
        return not_float(frequencies=frequencies) or not_integer(positions=positions, axes=axes)

    @p.kernel(ops.rope_angles, declines=angles_declines)
    def rope_angles(positions: Tensor, frequencies: Tensor, scale: float, axes: Tensor | None, every: int) -> Tensor:
        positions, frequencies = contiguous_integers(positions), float32_rows(p, frequencies)
        tokens, columns = positions.shape[-1], frequencies.shape[0]
        out = empty(HOST, (tokens, 2, columns))
        if out.size:
            axes = None if axes is None else contiguous_integers(axes)
            words = [positions, frequencies, axes, tokens, columns, positions.size // tokens, every, scale, out]
            axes_dtype = "" if axes is None else dtype_of(axes)
            p.launch(angles, words, 32 * out.size, dtype=dtype_of(positions), axes_dtype=axes_dtype)
        return out

    @p.kernel(ops.rotate, declines=lambda x, angles, interleaved, inverse: not_float(x=x, angles=angles))
    def rotate(x: Tensor, angles: Tensor, interleaved: bool, inverse: bool) -> Tensor:
        if x.strides[2] != 1 and x.shape[2] > 1:
            x = float32_rows(p, x)
        angles = float32_rows(p, angles)
        out = empty(HOST, x.shape)
        if out.size:
            words = [x, angles, *x.shape, angles.shape[2], *x.strides[:2], -1.0 if inverse else 1.0, out]
            p.launch(turn, words, 2 * x.size, dtype=dtype_of(x), interleaved=interleaved)
        return out
