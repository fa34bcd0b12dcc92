"""Functions of float32 registers (and single floats) within about 1e-7, and sine and cosine in float64.

The coefficients are minimax fits made for these ranges. Not a number stays so; limits are reached without overflow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import F32, F64, I32, I64, Val

EXP = (0.5, 0.1666666716337204, 0.04166644811630249, 0.008333282545208931, 0.0013935454189777374, 0.00019910252012778074)
TANH = (-0.3333333432674408, 0.13333292305469513, -0.053956761956214905, 0.021748902276158333, -0.008279784582555294, 0.0022218264639377594)
# e^(z^2) erfc(z) by t = 1 / (1 + z / 2), and over t, for z up to FARTHEST / sqrt(2)
ERFC = (0.2820594906806946, 0.2829608619213104, 0.2377345860004425, 0.22999000549316406, -0.11170044541358948,
        0.4470530152320862, -0.7019084095954895, 0.45342111587524414, -0.13388630747795105, 0.014276075176894665)  # fmt: skip
FARTHEST = 13.25  # from there on e^(-x^2 / 2) is 0
LOG = (0.6666666865348816, 0.4000014364719391, 0.2854855954647064, 0.23390033841133118)
SIN = (-0.1666666666666331, 0.008333333330715956, -0.0001984126656971481, 2.7555887081471364e-06, -2.4796131768296078e-08)
COS = (0.041666666666664215, -0.0013888888886988801, 2.4801584939104208e-05, -2.755628924583009e-07, 2.069329952828924e-09)
LOG2_HIGH, LOG2_LOW = 0.693359375, -2.12194440e-4  # ln 2 in two parts, the first with so few bits that its multiples are exact
ONE = 0x3F800000  # the bits of 1.0
NEAREST = 6755399441055744.0  # 1.5 * 2^52: a float64 added to it has the nearest integer in the sum's low bits
HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
WIDE_LOG2_HIGH, WIDE_LOG2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # ln 2 again, the first of 32 bits
ARTANH = tuple(1 / n for n in range(3, 25, 2))  # Taylor's, of arguments up to 0.172
EXP_SERIES = tuple(1 / math.factorial(n) for n in range(2, 16))  # likewise, up to 0.347
PI_HIGH, PI_LOW = 1.5707963267341256, 6.077100506506192e-11  # pi / 2 likewise, the first of 33 bits


def polynomial(k: Lanes, x: Val, coefficients: Sequence[float]) -> Val:
    """c0 + c1 x + c2 x^2 + ..."""
    total = k.like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = k.fma(total, x, k.like(x, c))
    return total


def exp(k: Lanes, x: Val) -> Val:
    """e^x: exactly 1 at 0, 0 under -87.3 (where float32 has subnormals alone), infinite over 88.7."""
    y = k.clamp(x, -87.3, 88.7)
    n, p = _exp_parts(k, y)
    half = n.signed_shift(1) << 23  # 2^n in two factors: 2^128 is no float32
    y = p * (half + ONE).cast("bitcast", F32) * ((n << 23) - half + ONE).cast("bitcast", F32)
    y = k.select(x < -87.3, k.like(x, 0.0), k.select(x > 88.7228, k.like(x, math.inf), y))
    return k.select(x.unordered(), x, y)


def exp_falling(k: Lanes, x: Val) -> Val:
    """e^x for x <= 0, and 0 under -87."""
    n, p = _exp_parts(k, k.max(x, -87.0))
    y = k.select(x < -87.0, k.like(x, 0.0), p * ((n << 23) + ONE).cast("bitcast", F32))
    return k.select(x.unordered(), x, y)


def _exp_parts(k: Lanes, x: Val) -> tuple[Val, Val]:
    """n and p with e^x = 2^n p."""
    n = k.rint(x * 1.4426950408889634)
    r = k.fma(n, k.like(x, -LOG2_LOW), k.fma(n, k.like(x, -LOG2_HIGH), x))
    return k.rounded(n), k.fma(polynomial(k, r, EXP), r * r, r) + 1.0


def sigmoid(k: Lanes, x: Val) -> Val:
    """1 / (1 + e^-x)."""
    return k.like(x, 1.0) / (exp(k, -x) + 1.0)


def tanh(k: Lanes, x: Val) -> Val:
    """Small arguments by a polynomial, so that they keep their relative accuracy."""
    size = k.abs(x)
    z = x * x
    small = k.fma(polynomial(k, z, TANH) * z, x, x)
    large = k.like(x, 1.0) - k.like(x, 2.0) / (exp(k, size + size) + 1.0)
    return k.select(size < 0.65, small, k.select(x < 0.0, -large, large))


def normal_share(k: Lanes, x: Val) -> Val:
    """The share of the normal distribution below x: (1 + erf(x / sqrt(2))) / 2, small values too."""
    y = k.min(k.abs(x), FARTHEST)
    square = y * y
    t = k.like(x, 1.0) / k.fma(y, k.like(x, math.sqrt(0.125)), k.like(x, 1.0))
    bell = exp(k, square * -0.5)
    bell = k.fma(bell * _square_rest(y, square), k.like(x, -0.5), bell)
    tail = bell * polynomial(k, t, ERFC) * t * 0.5
    return k.select(x < 0.0, tail, k.like(x, 1.0) - tail)


def _square_rest(x: Val, square: Val) -> Val:
    """x * x - square, exactly but for its last bits: 12 bits of x first, whose square is exact. Not every processor has an FMA."""
    high = (x.cast("bitcast", I32) & -4096).cast("bitcast", F32)
    return (high * high - square) + (x + high) * (x - high)


def log(k: Lanes, x: Val) -> Val:
    """The natural logarithm of a positive, normal, finite float."""
    bits = x.cast("bitcast", I32)
    exponent = (bits - 0x3F3504F3).signed_shift(23)  # so that the mantissa is between sqrt(1/2) and sqrt(2)
    m = (bits - (exponent << 23)).cast("bitcast", F32)
    n = exponent.cast("sitofp", F32)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    small = k.fma(n, k.like(x, LOG2_LOW), s * z * polynomial(k, z, LOG))
    return k.fma(n, k.like(x, LOG2_HIGH), small + (s + s))


def softplus(k: Lanes, x: Val) -> Val:
    """ln(1 + e^x); what 1 + e^-|x| has lost of the small part is put right by the quotient."""
    small = exp(k, -k.abs(x))
    u = small + 1.0
    grown = k.select(u.eq(1.0), small, log(k, u) * small / (u - 1.0))
    y = k.select(x > 0.0, x, k.like(x, 0.0)) + grown
    return k.select(x.unordered(), x, y)


def wide_log(k: Lanes, x: Val) -> Val:
    """The natural logarithm of a positive, normal, finite float64, within a few units of its last place."""
    bits = x.cast("bitcast", I64)
    exponent = (bits - HALF_ROOT).signed_shift(52)  # so that the mantissa is between sqrt(1/2) and sqrt(2)
    m = (bits - (exponent << 52)).cast("bitcast", F64)
    n, s = exponent.cast("sitofp", F64), (m - 1.0) / (m + 1.0)
    z = s * s
    return n * WIDE_LOG2_HIGH + (n * WIDE_LOG2_LOW + (s * z * _horner(z, ARTANH) + s) * 2.0)


def wide_exp(k: Lanes, x: Val) -> Val:
    """e^x in float64 for |x| up to 700, within a few units of its last place: exactly 1 at 0."""
    shifted = x * (1 / math.log(2)) + NEAREST
    n = shifted - NEAREST
    r = x - n * WIDE_LOG2_HIGH - n * WIDE_LOG2_LOW
    p = (r * r * _horner(r, EXP_SERIES) + r) + 1.0
    return (p.cast("bitcast", I64) + (shifted.cast("bitcast", I64) << 52)).cast("bitcast", F64)


def near_exp(k: Lanes, x: Val) -> Val:
    """e^x in float64 for |x| up to 700, within 1e-14 of its value."""
    shifted = k.fma(x, k.like(x, 1 / math.log(2)), k.like(x, NEAREST))
    n = shifted - NEAREST
    r = k.fma(n, k.like(x, -WIDE_LOG2_LOW), k.fma(n, k.like(x, -WIDE_LOG2_HIGH), x))
    p = k.fma(polynomial(k, r, EXP_SERIES[:10]), r * r, r) + 1.0
    return (p.cast("bitcast", I64) + (shifted.cast("bitcast", I64) << 52)).cast("bitcast", F64)


def turn(k: Lanes, x: Val) -> tuple[Val, Val]:
    """cos and sin of float64 x, |x| up to about 1e9, within 1e-13."""
    n = x * (2 / math.pi) + NEAREST
    quadrant = n.cast("bitcast", I64)
    n = n - NEAREST
    r = x - n * PI_HIGH - n * PI_LOW
    z = r * r
    sine = r + r * z * _horner(z, SIN)
    cosine = z * z * _horner(z, COS) - z * 0.5 + 1.0
    odd = (quadrant & 1).eq(1)
    cos, sin = k.select(odd, sine, cosine), k.select(odd, cosine, sine)
    return _signed(k, cos, (quadrant + 1) & 2), _signed(k, sin, quadrant & 2)


def _horner(x: Val, coefficients: Sequence[float]) -> Val:
    total = x * coefficients[-1] + coefficients[-2]
    for c in reversed(coefficients[:-2]):
        total = total * x + c
    return total


def _signed(k: Lanes, x: Val, two: Val) -> Val:
    """x, negated where `two` is 2 and not 0."""
    return (x.cast("bitcast", I64) ^ (two << 62)).cast("bitcast", F64)
