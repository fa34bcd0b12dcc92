import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.witness import normal, within_one_ulp
from vtcore.ops import add, clamp, concat, log_softmax, mul, scale, sigmoid_mul, softcap


def test_a_vector_is_added_to_each_row_and_a_column_to_each_column():
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    assert add(x, np.array([10, 20, 30], np.float32)).tolist() == [[11, 22, 33], [14, 25, 36]]
    assert add(np.array([[100], [200]], np.float32), x).tolist() == [[101, 102, 103], [204, 205, 206]]
    assert mul(x, np.array([2], np.float32)).tolist() == [[2, 4, 6], [8, 10, 12]]


@given(st.integers(0, 2**32 - 1))
def test_sums_and_products_are_rounded_as_ieee_says(seed):
    x, y = normal(seed, 3, 17), normal(seed + 1, 3, 17)
    np.testing.assert_array_equal(add(x, y), x + y)
    np.testing.assert_array_equal(mul(x, y), x * y)


def test_sixteen_bits_are_widened_first():
    x = np.array([60000, 60000], np.float16)
    assert add(x, x).tolist() == [120000, 120000]  # over what float16 holds
    assert mul(x, x).tolist() == [3.6e9, 3.6e9]


def test_a_factor_is_rounded_to_float32():
    assert scale(np.ones(1, np.float32), 0.1)[0] == np.float32(0.1)
    x = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(scale(x, 0.1), x * np.float32(0.1))
    assert (scale(x, 0.1) != (x * np.float64(0.1)).astype(np.float32)).any()
    assert scale(np.array([3], np.float32), 2)[0] == 6


@pytest.mark.parametrize(("score", "want"), [(10, 9.8687661), (50, 38.0797078), (200, 49.9664670)])
def test_softcap_values(score, want):
    np.testing.assert_allclose(softcap(np.float32([score, -score]), 50.0), [want, -want], rtol=1e-7)


def test_a_final_softcap_changes_the_log_probabilities():
    got = log_softmax(softcap(np.array([40, 20, 0], np.float32), 30.0))
    np.testing.assert_allclose(got, [-1.8074e-4, -8.6185422, -26.1020306], rtol=1e-4)
    np.testing.assert_allclose(got[1:], [-8.6185422, -26.1020306], rtol=3e-7)


def test_softcap_ends_at_the_cap():
    got = softcap(np.array([np.inf, -np.inf, 1e30, np.nan], np.float32), 30.0)
    assert got[:3].tolist() == [30, -30, 30]
    assert np.isnan(got[3])


def test_sigmoid_mul_by_hand():
    x, gate = normal(0, 3, 4, 5), normal(1, 3, 4, 1) * np.float32(5)
    want = [[[float(v) / (1 + math.exp(-float(gate[t, h, 0]))) for v in x[t, h]] for h in range(4)] for t in range(3)]
    within_one_ulp(sigmoid_mul(x, gate), want)


def test_a_gate_far_out_is_shut_or_open():
    assert sigmoid_mul(np.float32([3, 3, 3]), np.float32([-1e4, 0, 1e4])).tolist() == [0, 1.5, 3]


def test_concat_repeats_what_is_shared():
    x, y = normal(0, 2, 3, 4), normal(1, 2, 1, 2)
    got = concat(x, y)
    assert got.shape == (2, 3, 6)
    for h in range(3):
        assert got[1, h].tolist() == [*x[1, h].tolist(), *y[1, 0].tolist()]


def test_what_is_beyond_the_limit_becomes_it():
    x = np.array([-np.inf, -2.5, -2, 1.25, 2, 2.5, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(clamp(x, 2.0), np.array([-2, -2, -2, 1.25, 2, 2, 2, np.nan], np.float32))
