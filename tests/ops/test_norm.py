import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.witness import normal, within_one_ulp
from vtcore.ops import add_rms_norm, l2_norm, layer_norm, rms_norm


def rms_by_hand(row, weight, eps):
    mean = math.fsum(float(v) ** 2 for v in row) / len(row)
    return [float(v) / math.sqrt(mean + eps) * float(w) for v, w in zip(row, weight, strict=True)]


@pytest.mark.parametrize("shape", [(1, 64), (3, 127), (2, 3, 33), (5,)])
def test_rms_norm_by_hand(shape):
    x, weight = normal(0, *shape), normal(1, shape[-1])
    want = [rms_by_hand(row, weight, 1e-6) for row in x.reshape(-1, shape[-1])]
    within_one_ulp(rms_norm(x, weight, eps=1e-6), np.reshape(want, shape))


def test_rms_norm_of_ones_is_the_weight():
    weight = normal(0, 8)
    np.testing.assert_allclose(rms_norm(np.ones((2, 8), np.float32), weight, eps=0.0), [weight, weight], rtol=1e-7)


def test_a_float16_sum_of_squares_does_not_overflow():
    x = np.full(512, 256, np.float16)
    assert (rms_norm(x, np.ones(512, np.float16), eps=1e-5) == 1).all()


@pytest.mark.parametrize(("eps", "want"), [(1e-5, 1e-4 / math.sqrt(1e-8 + 1e-5)), (1e-8, math.sqrt(0.5))])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_small_eps_still_counts(eps, want, dtype):
    got = rms_norm(np.full(8, 1e-4, np.float32).astype(dtype), None, eps=eps)
    np.testing.assert_allclose(got, want, rtol={np.float32: 1e-6}.get(dtype, 5e-3))


def test_large_and_tiny_rows_stand_side_by_side():
    x = np.array([[1e30, -1e30], [1e-30, 1e-30], [0, -0.0]], np.float32)
    np.testing.assert_allclose(rms_norm(x, None, eps=0.0)[:2], [[1, -1], [1, 1]], rtol=1e-6)
    assert rms_norm(x, None, eps=1e-6)[2].tolist() == [0, 0]


def test_an_offset_is_added_to_the_weight():
    x, weight = normal(0, 3, 16), np.arange(-8, 8, dtype=np.float32) / 4
    np.testing.assert_array_equal(rms_norm(x, weight, 1e-6, offset=1.0), rms_norm(x, weight + 1, 1e-6))


def test_each_group_has_a_mean_of_its_own():
    x, weight = normal(0, 4, 24), normal(1, 24)
    parts = [rms_norm(x[:, i : i + 8], weight[i : i + 8], 1e-5) for i in (0, 8, 16)]
    np.testing.assert_array_equal(rms_norm(x, weight, 1e-5, groups=3), np.concatenate(parts, -1))


@given(st.integers(-40, 40), st.integers(0, 2**32 - 1))
def test_a_power_of_two_changes_no_bit(power, seed):
    x = normal(seed, 2, 33)
    np.testing.assert_array_equal(rms_norm(x * np.float32(2.0**power), None, eps=0.0), rms_norm(x, None, eps=0.0))


def test_add_rms_norm_is_the_norm_of_the_rounded_sum():
    x, residual, weight = normal(0, 3, 32), normal(1, 3, 32), normal(2, 32)
    normed, total = add_rms_norm(x, residual, weight, eps=1e-6, offset=1.0, groups=2)
    np.testing.assert_array_equal(total, x + residual)
    np.testing.assert_array_equal(normed, rms_norm(x + residual, weight, eps=1e-6, offset=1.0, groups=2))


def test_layer_norm_by_hand():
    x, weight, bias = normal(0, 3, 31) + np.float32(5), normal(1, 31), normal(2, 31)
    want = []
    for row in x.tolist():
        mean = math.fsum(row) / 31
        deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in row) / 31 + 1e-5)
        want.append([(v - mean) / deviation * float(w) + float(b) for v, w, b in zip(row, weight, bias, strict=True)])
    np.testing.assert_allclose(layer_norm(x, weight, bias, eps=1e-5), want, rtol=1e-6, atol=1e-7)


@given(st.integers(-1000, 1000), st.integers(0, 2**32 - 1))
def test_layer_norm_ignores_a_shift(shift, seed):
    x = np.random.default_rng(seed).integers(-99, 99, (2, 16)).astype(np.float32)
    np.testing.assert_allclose(layer_norm(x + np.float32(shift), None, None, 1e-5), layer_norm(x, None, None, 1e-5), atol=1e-6)


def test_layer_norm_takes_a_weight_or_a_bias_alone():
    x, v = normal(0, 2, 8), normal(1, 8)
    plain = layer_norm(x, None, None, 1e-5).astype(np.float64)
    np.testing.assert_allclose(layer_norm(x, v, None, 1e-5), plain * v, rtol=1e-6)
    np.testing.assert_allclose(layer_norm(x, None, v, 1e-5), plain + v, rtol=1e-6, atol=1e-7)


def test_l2_norm_takes_the_sum_not_the_mean():
    np.testing.assert_allclose(l2_norm(np.array([3, 4], np.float32), eps=0.0), [0.6, 0.8], rtol=1e-7)
    np.testing.assert_allclose(l2_norm(np.array([0, 0, 1e-3], np.float32)), [0, 0, 1e-3 / math.sqrt(1e-6 + 1e-6)], rtol=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_l2_norm_gives_length_one(seed):
    np.testing.assert_allclose(np.linalg.norm(l2_norm(normal(seed, 4, 50), eps=0.0).astype(np.float64), axis=-1), 1, rtol=1e-6)


@pytest.mark.parametrize("norm", [lambda x: rms_norm(x, None, 1e-6), lambda x: layer_norm(x, None, None, 1e-6), l2_norm])
def test_a_batch_of_none_is_none(norm):
    assert norm(np.zeros((0, 8), np.float32)).shape == (0, 8)
