"""Formulas of each value on a device, and rows that are normed: odd layouts, limits, and no element beyond the ends."""

import math
from contextlib import closing

import numpy as np
import pytest

from vtcore import ops
from vtcore.providers import ProviderOptions, find
from vtcore.providers.gpu.pointwise import joined
from vtcore.providers.kernels import maths
from vtcore.providers.opencl import make

from .test_products import run

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def opencl():
    return make(ProviderOptions())


def test_axes_that_every_array_walks_at_one_stride_are_one():
    assert joined((2, 3, 4), (12, 4, 1), (12, 4, 1)) == ([24], [[1], [1]])
    assert joined((2, 3, 4), (12, 4, 1), (0, 0, 1)) == ([6, 4], [[4, 1], [0, 1]])
    assert joined((1, 1), (5, 1)) == ([], [[]])


def test_arrays_with_more_axes_than_a_kernel_walks(opencl):
    x = RNG.standard_normal((2, 3, 2, 3, 2, 3)).astype(np.float32)
    odd, column = x.transpose(5, 1, 3, 0, 2, 4), RNG.standard_normal((3, 1, 3, 1, 2, 1)).astype(np.float32)
    np.testing.assert_array_equal(run(opencl, ops.add, x=odd, y=column), odd + column)
    joint = run(opencl, ops.concat, x=odd, y=column)
    np.testing.assert_array_equal(joint, np.concatenate([odd, np.broadcast_to(column, (*odd.shape[:-1], 1))], -1))


def test_limits(opencl):
    x = np.array([-math.inf, -1e30, -100, -0.0, 0.0, 100, 1e30, math.inf, math.nan], np.float32)
    np.testing.assert_allclose(run(opencl, ops.sigmoid, x=x), [0, 0, 0, 0.5, 0.5, 1, 1, 1, math.nan], atol=1e-30)
    np.testing.assert_allclose(
        run(opencl, ops.softplus, x=x), [0, 0, 0, math.log(2), math.log(2), 100, 1e30, math.inf, math.nan], rtol=1e-6
    )
    np.testing.assert_allclose(run(opencl, ops.softcap, x=x, cap=5.0), [-5, -5, -5, 0, 0, 5, 5, 5, math.nan], rtol=1e-6)


@pytest.mark.parametrize("name", ["portable", "opencl", "vulkan"])
def test_gelu_keeps_its_digits_far_below_zero(name):
    x = np.linspace(-13, 0, 4001, endpoint=False, dtype=np.float32)
    with closing(find(name)) as provider:
        y = run(provider, ops.gelu, x=x)
        ends = run(provider, ops.gelu, x=np.array([-1e30, -14, 20, 1e30, math.inf, math.nan], np.float32))
    np.testing.assert_allclose(y, [v / 2 * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64)], rtol=1e-6)
    np.testing.assert_array_equal(ends, np.array([0, 0, 20, 1e30, math.inf, math.nan], np.float32))


def test_helpers_stand_before_who_calls_them():
    code = maths.text("y = fn_gelu_tanh(x)")
    assert code.index("float fn_exp(") < code.index("float fn_sigmoid(") < code.index("float fn_gelu_tanh(")
    assert "fn_log" not in code


@pytest.mark.parametrize("width", [13, 96, 300, 4097])
def test_rows_shorter_and_longer_than_a_group(opencl, width):
    x = RNG.standard_normal((3, width)).astype(np.float32)
    normed = run(opencl, ops.rms_norm, x=x, weight=None, eps=1e-6)
    np.testing.assert_allclose(normed, x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True)), rtol=1e-5)
