"""Rotary position (RoFormer, Su and others, 2021). Angles are made once a forward for each kind of rope; every layer rotates by them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, wide
from vtcore.ops.inputs import SIXTEEN, cut, ints, normal, ones, sixteen, turned
from vtcore.ops.rules import first, inside, not_negative, positive, rising, unless

ANGLES = Tolerance({"float32": 2e-6}, "float32 sine and cosine: 2 ulp of one, at the angle rounded to float32", atol=2.5e-7)
ROTATED = Tolerance({"float32": 2e-6}, "two float32 products and a sum: under 20 ulp of the head's largest value")


def _frequencies(theta: float, turn: int) -> Array:
    return narrow(theta ** (-np.arange(0, turn, 2) / turn))


def _angle_samples(rng: np.random.Generator) -> Iterator[Call]:
    for theta, turn, positions in ((1e4, 64, range(9)), (1e6, 128, (131071,)), (5e5, 2, (0, 1, 7)), (1e4, 96, ())):
        yield {"positions": ints(*positions), "frequencies": _frequencies(theta, turn)}
    f, three = _frequencies(1e4, 24), rng.integers(0, 500, (3, 5)).astype(np.int32)
    yield {"positions": ints(3, 900, 4096), "frequencies": f, "scale": 1.1902381}
    yield {"positions": three, "frequencies": f, "axes": np.repeat(ints(0, 1, 2), 4)}
    yield {"positions": three, "frequencies": f, "axes": None}
    yield {"positions": np.arange(21, dtype=np.int32), "frequencies": f, "every": 4}
    for dtype in SIXTEEN:
        yield {"positions": ints(0, 1, 50), "frequencies": f.astype(dtype), "scale": 0.5}


def _angle_errors() -> Iterator[tuple[Call, str]]:
    good = {"positions": ints(0, 1), "frequencies": ones(4)}
    yield good | {"positions": ones(2)}, "positions is float32; it must be an integer type"
    yield good | {"positions": np.zeros((1, 1, 2), np.int32)}, "positions has 3 axes; it must be [T] or [A T]"
    yield good | {"axes": ints(0, 0, 0, 1)}, "axes holds 1; it must be in [0, 1)"
    yield good | {"axes": ints(0)}, "axis F of axes"
    yield good | {"every": 0}, "every is 0; it must be over 0"


def _angle_rules(positions: Array, axes: Array | None, every: int, **_: object) -> str | None:
    n = len(positions.shape)
    return first(
        unless(n <= 2, f"positions has {n} axes; it must be [T] or [A T]"),
        inside("axes", axes, 0, positions.shape[0] if n == 2 else 1),
        positive(every=every),
    )


@op(
    "positions[... T]:i, frequencies[F], axes[F]:i? -> [T 2 F]",
    samples=_angle_samples,
    errors=_angle_errors,
    tolerance=ANGLES,
    check=_angle_rules,
)
def rope_angles(positions: Array, frequencies: Array, scale: float = 1.0, axes: Array | None = None, every: int = 1) -> Array:
    """cos and sin of position * frequency, times scale: [T 2 F], cosines first. The product is rounded to float32, as torch makes it.

    positions [T], frequencies [F]; or positions [A T] for multimodal ropes: then axes [F] names the row that each frequency follows
    (None: row 0).
    With every = r the position is that of the first token of each window of r tokens."""
    rows = np.atleast_2d(positions) // every * every
    follows = np.zeros(len(frequencies), np.int64) if axes is None else axes
    return narrow(np.stack(_turns(rows[follows].T, narrow(frequencies)), 1) * scale)


def _dynamic_samples(rng: np.random.Generator) -> Iterator[Call]:
    numbers = {"theta": 1e4, "longest": 32, "factor": 2.0, "turn": 16}
    yield {"positions": ints(30, 31, 32, 33, 5, 0, 9), "starts": ints(0, 4, 4, 6), "lengths": ints(32, 0, 34)} | numbers
    yield {"positions": ints(99), "starts": ints(0, 1), "lengths": ints(100), "theta": 5e5, "longest": 8, "factor": 4.0, "turn": 4}
    yield {"positions": ints(), "starts": ints(0), "lengths": ints()} | numbers


def _dynamic_errors() -> Iterator[tuple[Call, str]]:
    good = {"positions": ints(0, 1), "starts": ints(0, 2), "lengths": ints(2), "theta": 1e4, "longest": 8, "factor": 2.0, "turn": 8}
    yield good | {"starts": ints(0, 1, 2)}, "axis R+1 of starts is 3; it must be 2"
    yield good | {"starts": ints(0, 3)}, "starts holds 3; it must be in [0, 3)"
    yield good | {"starts": ints(2, 0)}, "it must never fall"
    yield good | {"turn": 2}, "turn is 2; it must be even, and 4 or more"
    yield good | {"longest": 0}, "longest is 0"


def _dynamic_rules(positions: Array, starts: Array, theta: float, longest: int, factor: float, turn: int, **_: object) -> str | None:
    return first(
        rising("starts", starts, positions.shape[0]),
        positive(theta=theta, longest=longest, factor=factor),
        unless(turn >= 4 and turn % 2 == 0, f"turn is {turn}; it must be even, and 4 or more"),
    )


@op(
    "positions[T]:i, starts[R+1]:i, lengths[R]:i -> [T 2 turn//2]",
    samples=_dynamic_samples,
    errors=_dynamic_errors,
    tolerance=ANGLES,
    check=_dynamic_rules,
)
def dynamic_angles(positions: Array, starts: Array, lengths: Array, theta: float, longest: int, factor: float, turn: int) -> Array:
    """As rope_angles, with a base that grows with its request's length L once that is over `longest`: [T 2 turn/2]; dynamic NTK.

    base = theta * (factor * L / longest - (factor - 1)) ^ (turn / (turn - 2)), frequency i = base ^ (-2 i / turn).
    positions [T]; request r owns the rows starts[r] to starts[r + 1], other rows are zeros. For a token at position p L is the larger of
    lengths[r] and p + 1: with the length of its prompt there, a token's angle is the same however its request is cut into chunks."""
    out = np.zeros((len(positions), 2, turn // 2), np.float32)
    for r, length in enumerate(lengths):
        for t in range(starts[r], starts[r + 1]):
            longer = max(int(length), int(positions[t]) + 1, longest)
            base = theta * (factor * longer / longest - (factor - 1)) ** (turn / (turn - 2))
            out[t] = _turns(positions[t], narrow(base ** (-np.arange(0, turn, 2) / turn)))
    return out


def _growth_samples(rng: np.random.Generator) -> Iterator[Call]:
    for period, rate in ((16, 0.1), (8192, 0.1), (1, 1.0)):
        yield {"positions": np.arange(40, dtype=np.int32), "period": period, "rate": rate}
    yield {"positions": ints(0, 8191, 8192, 1048575), "period": 8192, "rate": 0.1, "shift": 1}
    yield {"positions": ints(7), "period": 4, "rate": 0.5}
    yield {"positions": ints(), "period": 4, "rate": 0.5}


def _growth_errors() -> Iterator[tuple[Call, str]]:
    good = {"positions": ints(0, 1), "period": 8, "rate": 0.1}
    yield good | {"period": 0}, "period is 0; it must be over 0"
    yield good | {"positions": ones(2)}, "positions is float32; it must be an integer type"
    yield good | {"shift": -1}, "shift is -1"


@op(
    "positions[T]:i -> [T]",
    samples=_growth_samples,
    errors=_growth_errors,
    tolerance=ANGLES,
    check=lambda period, shift, **_: first(positive(period=period), not_negative(shift=shift)),
)
def position_growth(positions: Array, period: int, rate: float, shift: int = 0) -> Array:
    """1 + rate * ln(1 + floor((position + shift) / period)): what queries are scaled by where they grow with their position. [T].

    positions [T], 0 or more. Scalable-Softmax, Nakanishi, 2025, as Llama 4 and Ministral 3 do it."""
    return narrow(1 + rate * np.log1p((positions.astype(np.int64) + shift) // period))


def _turns(positions: Array, frequencies: Array) -> tuple[Array, Array]:
    angle = (positions.astype(np.float32) * frequencies).astype(np.float64)
    return np.cos(angle), np.sin(angle)


def _rotate_samples(rng: np.random.Generator) -> Iterator[Call]:
    for t, h, d, half in ((1, 9, 64, 32), (5, 3, 128, 64), (4, 2, 80, 20), (3, 1, 7, 2), (0, 2, 16, 8), (2, 4, 256, 0)):
        turn = rng.uniform(0, 6, (t, half))
        call = {"x": normal(rng, t, h, d), "angles": narrow(np.stack([np.cos(turn), np.sin(turn)], 1))}
        yield call
        yield call | {"interleaved": True}
    yield call | {"x": normal(rng, 2, 3, 8), "angles": normal(rng, 2, 2, 4), "inverse": True}
    yield call | {"x": normal(rng, 2, 3, 12, magnitude=1e4), "angles": normal(rng, 2, 2, 4), "interleaved": True, "inverse": True}
    x, angles = normal(rng, 5, 4, 16), normal(rng, 5, 2, 6)
    yield {"x": cut(normal(rng, 5, 64)).reshape(5, 4, 16), "angles": angles}
    yield {"x": normal(rng, 5, 6, 16)[:, 2:], "angles": cut(angles)}
    yield {"x": turned(x), "angles": angles}
    yield from sixteen({"x": x, "angles": angles})


def _rotate_errors() -> Iterator[tuple[Call, str]]:
    yield {"x": ones(2, 3, 8), "angles": ones(2, 2, 5)}, "angles turn 10 channels; a head of x has 8"
    yield {"x": ones(2, 3, 8), "angles": ones(1, 2, 4)}, "axis T of angles"
    yield {"x": ones(2, 3, 8), "angles": ones(2, 3, 4)}, "axis 2 of angles is 3; it must be 2"
    yield {"x": ones(2, 24), "angles": ones(2, 2, 4)}, "x has shape [2, 24]; it must have 3 axes"


def _rotate_rules(x: Array, angles: Array, **_: object) -> str | None:
    turned, width = 2 * angles.shape[2], x.shape[2]
    return unless(turned <= width, f"angles turn {turned} channels; a head of x has {width}")


@op("x[T H D], angles[T 2 F] -> [T H D]", samples=_rotate_samples, errors=_rotate_errors, tolerance=ROTATED, check=_rotate_rules)
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
