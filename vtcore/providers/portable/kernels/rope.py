"""Rotary position: angles once a forward, then the turn of every head."""

from __future__ import annotations

import math

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable import maths
from vtcore.providers.portable.arrays import contiguous, dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, F64, Val
from vtcore.tensor import Tensor, empty

COST_OF_AN_ANGLE, COST_OF_A_TURN = 50, 2  # work of an element


@kernel("positions frequencies axes tokens half every scale:d -> y")
def angles(k: Lanes, positions: Val, frequencies: Val, axes: Val, tokens: Val, half: Val, every: Val, scale: Val, y: Val,
           *, size: int, axes_size: int) -> None:  # fmt: skip
    """y[t] = cosines, then sines. The angle is rounded to float32, and turned in float64. size: bytes of an integer."""
    ints = {4: "int32", 8: "int64"}
    for t in k.share(tokens):
        for f in k.range(half):
            row = k.integer(axes + f * axes_size, ints[axes_size]) * tokens if axes_size else k.lift(0)
            position = k.integer(positions + (row + t) * size, ints[size])
            position = position // every * every
            angle = position.cast("sitofp", F32) * k.number(frequencies + f * 4)
            cos, sin = maths.turn(k, angle.cast("fpext", F64))
            k.store(y + (t * 2 * half + f) * 4, (cos * scale).cast("fptrunc", F32))
            k.store(y + (t * 2 * half + half + f) * 4, (sin * scale).cast("fptrunc", F32))


@kernel("positions starts lengths tokens requests half longest log_theta:d factor:d turns:d -> y")
def growing(k: Lanes, positions: Val, starts: Val, lengths: Val, tokens: Val, requests: Val, half: Val, longest: Val, log_theta: Val,
            factor: Val, turns: Val, y: Val, *, sizes: str) -> None:  # fmt: skip
    """y[t] as in `angles`, by a base that grows with the request's length; zeros for a row of no request. turns: turn / (turn - 2)."""
    ints = sizes.split()
    for t in k.share(tokens):
        length, owned = k.var(longest), k.var(0.0, F64)
        for r in k.range(requests):
            begin, end = (k.integer(starts + (r + i) * SIZES[ints[1]], ints[1]) for i in (0, 1))
            mine = (begin <= t) & (t < end)
            here = k.integer(lengths + r * SIZES[ints[2]], ints[2])
            length.set(k.select(mine, k.max(length.get(), here), length.get()))
            owned.set(k.select(mine, k.lift(1.0, F64), owned.get()))
        position = k.integer(positions + t * SIZES[ints[0]], ints[0])
        longer = k.max(length.get(), position + 1).cast("sitofp", F64)
        growth = factor * longer / longest.cast("sitofp", F64) - (factor - 1.0)
        log_base = log_theta + turns * maths.wide_log(k, growth)
        for f in k.range(half):
            power = -(f.cast("sitofp", F64) * log_base / half.cast("sitofp", F64))
            angle = position.cast("sitofp", F32) * maths.wide_exp(k, power).cast("fptrunc", F32)
            cos, sin = maths.turn(k, angle.cast("fpext", F64))
            k.store(y + (t * 2 * half + f) * 4, (cos * owned.get()).cast("fptrunc", F32))
            k.store(y + (t * 2 * half + half + f) * 4, (sin * owned.get()).cast("fptrunc", F32))


@kernel("x angles tokens heads width half token_stride head_stride -> y")
def turn(k: Lanes, x: Val, angles: Val, tokens: Val, heads: Val, width: Val, half: Val, token_stride: Val, head_stride: Val, y: Val,
         *, interleaved: bool, inverse: bool) -> None:  # fmt: skip
    """The first 2 * half channels of every head by their angles; the others as they are."""
    for part in k.share(tokens * heads):
        t, h = part // heads, part % heads
        source, target = x + (t * token_stride + h * head_stride) * 4, y + part * width * 4
        cos = angles + t * half * 8
        (_pairs if interleaved else _halves)(k, source, target, cos, cos + half * 4, half, -1.0 if inverse else 1.0)
        rest = half * 2
        for i, count in k.vectors(width - rest):
            k.put(target + (rest + i) * 4, k.floats(source + (rest + i) * 4, "float32", count), "float32", count)


def _halves(k: Lanes, source: Val, target: Val, cosines: Val, sines: Val, half: Val, sign: float) -> None:
    """Channel i turns with channel i + half."""
    for i, count in k.vectors(half):
        a, b = (k.floats(source + (i + shift) * 4, "float32", count) for shift in (k.lift(0), half))
        cos, sin = (k.floats(table + i * 4, "float32", count) for table in (cosines, sines))
        re, im = _turned(k, a, b, cos, sin * sign)
        k.put(target + i * 4, re, "float32", count)
        k.put(target + (i + half) * 4, im, "float32", count)


def _pairs(k: Lanes, source: Val, target: Val, cosines: Val, sines: Val, half: Val, sign: float) -> None:
    """Channel 2 i turns with channel 2 i + 1."""
    n = k.lanes
    whole = half - half % n
    for i in k.range(0, whole, n):
        low, high = (k.floats(source + (i * 2 + shift) * 4) for shift in (0, n))
        even, odd = (k.shuffle(low, high, range(first, 2 * n, 2)) for first in (0, 1))
        re, im = _turned(k, even, odd, k.floats(cosines + i * 4), k.floats(sines + i * 4) * sign)
        order = [lane for pair in zip(range(n), range(n, 2 * n), strict=True) for lane in pair]
        k.put(target + i * 8, k.shuffle(re, im, order[:n]))
        k.put(target + i * 8 + n * 4, k.shuffle(re, im, order[n:]))
    for i in k.range(whole, half):
        a, b = k.number(source + i * 8), k.number(source + i * 8 + 4)
        re, im = _turned(k, a, b, k.number(cosines + i * 4), k.number(sines + i * 4) * sign)
        k.put_number(target + i * 8, re)
        k.put_number(target + i * 8 + 4, im)


def _turned(k: Lanes, a: Val, b: Val, cos: Val, sin: Val) -> tuple[Val, Val]:
    return k.fma(a, cos, -(b * sin)), k.fma(b, cos, a * sin)


def _integers(**tensors: Tensor | None) -> str | None:
    for name, t in tensors.items():
        if t is not None and (dtype_of(t) not in ("int32", "int64") or not t.contiguous):
            return f"{name} is {t.dtype} with strides {list(t.strides)}; the kernel reads contiguous int32 or int64"
    return None


def register(p: Portable) -> None:
    """The ops of ops/rope.py."""

    def angles_decline(positions: Tensor, frequencies: Tensor, axes: Tensor | None, **_: object) -> str | None:
        return _integers(positions=positions, axes=axes) or not_float(frequencies=frequencies)

    @p.kernel(ops.rope_angles, declines=angles_decline)
    def rope_angles(positions: Tensor, frequencies: Tensor, scale: float, axes: Tensor | None, every: int) -> Tensor:
        tokens, half, frequencies = positions.shape[-1], frequencies.shape[0], float32_rows(p, frequencies)
        y = empty(HOST, (tokens, 2, half))
        words = (positions, frequencies, axes, tokens, half, every, scale, y)
        sizes = {"size": 4 if dtype_of(positions) == "int32" else 8}
        sizes["axes_size"] = 0 if axes is None else 4 if dtype_of(axes) == "int32" else 8
        p.launch(angles, words, COST_OF_AN_ANGLE * tokens * half, **sizes)
        return y

    @p.kernel(
        ops.dynamic_angles, declines=lambda positions, starts, lengths, **_: _integers(positions=positions, starts=starts, lengths=lengths)
    )
    def dynamic_angles(positions: Tensor, starts: Tensor, lengths: Tensor, theta: float, longest: int, factor: float, turn: int) -> Tensor:
        tokens, half = positions.shape[0], turn // 2
        y = empty(HOST, (tokens, 2, half))
        words: list[Word] = [positions, starts, lengths, tokens, lengths.shape[0], half, longest]
        words += [math.log(theta), float(factor), turn / (turn - 2), y]
        sizes = " ".join(map(dtype_of, (positions, starts, lengths)))
        p.launch(growing, words, COST_OF_AN_ANGLE * y.size, sizes=sizes)
        return y

    @p.kernel(ops.rotate, declines=lambda x, angles, **_: not_float(x=x, angles=angles))
    def rotate(x: Tensor, angles: Tensor, interleaved: bool, inverse: bool) -> Tensor:
        if dtype_of(x) != "float32" or x.strides[-1] != 1:
            x = contiguous(p, x)
        angles, (tokens, heads, width) = float32_rows(p, angles), x.shape
        y = empty(HOST, x.shape)
        words: list[Word] = [x, angles, tokens, heads, width, angles.shape[-1], *x.strides[:2], y]
        p.launch(turn, words, COST_OF_A_TURN * x.size, interleaved=bool(interleaved), inverse=bool(inverse))
        return y
