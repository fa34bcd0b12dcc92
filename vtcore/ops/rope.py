"""Rotary position (RoFormer, Su and others, 2021). Angles are made once a forward for each kind of rope; every layer rotates by them."""

from __future__ import annotations

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import nothing, nothing_wrong


@op("positions[... T]:i, frequencies[F], axes[F]:i? -> [T 2 F]", samples=nothing, errors=nothing_wrong)
def rope_angles(positions: Array, frequencies: Array, scale: float = 1.0, axes: Array | None = None, every: int = 1) -> Array:
    """cos and sin of position * frequency, times scale: [T 2 F], cosines first. The product is rounded to float32, as torch makes it.

    positions [T], or [A T] for multimodal ropes: then axes [F] names the row that each frequency follows (None: row 0).
    With every = r the position is that of the first token of each window of r tokens."""
    rows = positions.reshape(-1, positions.shape[-1]) // every * every
    follows = np.zeros(len(frequencies), np.int64) if axes is None else axes
    return narrow(np.stack(_turns(rows[follows].T, narrow(frequencies)), 1) * scale)


@op("positions[T]:i, starts[R+1]:i, lengths[R]:i -> [T 2 turn//2]", samples=nothing, errors=nothing_wrong)
def dynamic_angles(positions: Array, starts: Array, lengths: Array, theta: float, longest: int, factor: float, turn: int) -> Array:
    """As rope_angles, with a base that grows with its request's length L once that is over `longest`: [T 2 turn/2]; dynamic NTK.

    base = theta * (factor * L / longest - (factor - 1)) ^ (turn / (turn - 2)), frequency i = base ^ (-2 i / turn).
    positions [T]; request r owns the rows starts[r] to starts[r + 1], and has lengths[r] tokens with them. Other rows are zeros."""
    out = np.zeros((len(positions), 2, turn // 2), np.float32)
    for r, length in enumerate(lengths):
        own = slice(starts[r], starts[r + 1])
        base = theta * (factor * max(int(length), longest) / longest - (factor - 1)) ** (turn / (turn - 2))
        frequencies = narrow(base ** (-np.arange(0, turn, 2) / turn))
        out[own] = np.stack(_turns(positions[own, None], frequencies), 1)
    return out


def _turns(positions: Array, frequencies: Array) -> tuple[Array, Array]:
    angle = (positions.astype(np.float32) * frequencies).astype(np.float64)
    return np.cos(angle), np.sin(angle)


@op("x[T H D], angles[T 2 F] -> [T H D]", samples=nothing, errors=nothing_wrong)
def rotate(x: Array, angles: Array, interleaved: bool = False, inverse: bool = False) -> Array:
    """Turn pairs (a, b) of each head's first 2 F channels by their angle: (a cos - b sin, b cos + a sin); the rest stays.

    x [T H D], angles [T 2 F] from rope_angles, 2 F <= D. Pair i is (i, i + F), or interleaved (2 i, 2 i + 1); inverse turns back."""
    half = angles.shape[-1]
    cos, sin = wide(angles[:, :1]), wide(angles[:, 1:]) * (-1 if inverse else 1)
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    out = wide(x)
    a, b = out[..., first].copy(), out[..., second].copy()
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return narrow(out)
