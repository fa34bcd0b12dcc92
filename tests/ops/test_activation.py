import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.witness import normal, within_one_ulp
from vtcore.ops import (
    gelu,
    gelu_erf_mul,
    gelu_mul,
    gelu_tanh,
    quick_gelu,
    quick_gelu_mul,
    relu,
    relu_squared,
    silu,
    silu_mul,
    situ_mul,
    swiglu_oai,
    xielu,
)

GRID = np.linspace(-9, 9, 73, dtype=np.float32)


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


BY_HAND = {
    silu: lambda x: x * sigmoid(x),
    gelu: lambda x: x * NormalDist().cdf(x),
    gelu_tanh: lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    quick_gelu: lambda x: x * sigmoid(1.702 * x),
    relu: lambda x: x if x > 0 else 0.0,
    relu_squared: lambda x: x * x if x > 0 else 0.0,
}
NAMES = [op.name for op in BY_HAND]


@pytest.mark.parametrize(("op", "by_hand"), BY_HAND.items(), ids=NAMES)
def test_values_by_hand(op, by_hand):
    np.testing.assert_allclose(op(GRID), [by_hand(float(v)) for v in GRID], rtol=2e-7, atol=2e-15)  # the tails cancel


@pytest.mark.parametrize(
    ("op", "at_one", "at_minus_one"),
    [
        (silu, 0.7310585786300049, -0.2689414213699951),
        (gelu, 0.8413447460685429, -0.15865525393145705),
        (gelu_tanh, 0.8411919906082768, -0.15880800939172324),
        (quick_gelu, 0.8457957659328212, -0.15420423406717883),
        (relu, 1, 0),
        (relu_squared, 1, 0),
    ],
    ids=NAMES,
)
def test_published_values(op, at_one, at_minus_one):
    within_one_ulp(op(np.float32([1, -1, 0])), [at_one, at_minus_one, 0])


@pytest.mark.parametrize("op", BY_HAND, ids=NAMES)
def test_far_out_they_are_the_identity_or_zero(op):
    got = op(np.float32([1e4, 3e38, -1e4, -3e38]))
    assert got[:2].tolist() == ([1e8, np.inf] if op is relu_squared else [1e4, np.float32(3e38)])
    assert not got[2:].any()


@given(st.integers(0, 2**32 - 1))
def test_a_value_less_its_mirror_is_the_argument(seed):
    x = normal(seed, 32) * np.float32(3)
    for op in (silu, gelu, gelu_tanh, quick_gelu):
        np.testing.assert_allclose(op(x).astype(np.float64) - op(-x), x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("gated", "plain"), [(silu_mul, silu), (gelu_mul, gelu_tanh), (gelu_erf_mul, gelu), (quick_gelu_mul, quick_gelu)])
def test_gated_is_the_activation_by_the_other_half(gated, plain):
    gate, up = normal(0, 3, 16) * np.float32(3), normal(1, 3, 16)
    want = [BY_HAND[plain](float(g)) * float(u) for g, u in zip(gate.flat, up.flat, strict=True)]
    np.testing.assert_allclose(gated(gate, up), np.reshape(want, gate.shape), rtol=2e-7, atol=2e-15)


def test_a_limit_clamps_the_gate_above_and_the_other_half_on_both_sides():
    gate, up = np.float32([9, 1, -9, 9]), np.float32([9, -9, 0.5, -9])
    g, u = [7, 1, -9, 7], [7, -7, 0.5, -7]
    within_one_ulp(silu_mul(gate, up, limit=7.0), [a * sigmoid(a) * b for a, b in zip(g, u, strict=True)])
    want = [a * sigmoid(1.702 * a) * (b + 1) for a, b in zip(g, u, strict=True)]
    within_one_ulp(swiglu_oai(gate, up, alpha=1.702, limit=7.0), want)


def test_nan_stays_nan():
    for op in BY_HAND:
        assert np.isnan(op(np.float32([np.nan]))).all()
    assert np.isnan(silu_mul(np.float32([np.nan, 1]), np.float32([1, np.nan]), limit=7.0)).all()


def numbers(*values):
    return [np.float32([v]) for v in values]


def test_xielu_by_hand():
    """Both sides of zero, the line between, and what lies above eps there."""
    got = xielu(np.float32([2, 0, -1e-3, -3]), *numbers(0.75, 1.25, 0.5, -1e-2))
    fall = [1.75 * (math.exp(min(x, float(np.float32(-1e-2)))) - 1 - x) + 0.5 * x for x in (float(np.float32(-1e-3)), -3.0)]
    within_one_ulp(got[[0, 2, 3]], [0.75 * 4 + 1, *fall])
    np.testing.assert_allclose(got[1], 1.75 * math.expm1(float(np.float32(-1e-2))), rtol=2e-7)


def test_xielu_keeps_small_values():
    """exp(x) - 1 - x is x^2 / 2 there, and nothing of it may be lost."""
    x = np.float32([-1e-2, -1e-4])
    within_one_ulp(xielu(x, *numbers(1, 2, 0, 0)), [2 * (v**2 / 2 + v**3 / 6 + v**4 / 24 + v**5 / 120) for v in map(float, x)])


@pytest.mark.parametrize(("alpha", "limit"), [(4.0, 25.0), (1.0, 2.0), (4.0, math.inf)])
def test_situ_keeps_both_factors_within_bounds(alpha, limit):
    up = GRID[::-1].copy()
    bounded = [float(u) if math.isinf(limit) else limit * math.tanh(float(u) / limit) for u in up]
    want = [alpha * math.tanh(float(g) / alpha) * sigmoid(float(g)) * u for g, u in zip(GRID, bounded, strict=True)]
    within_one_ulp(situ_mul(GRID, up, alpha, limit), want)
    assert abs(situ_mul(np.float32([90]), np.float32([1e6]), 4.0, 25.0)[0] - 100) < 1e-3
