"""What GLSL lacks is made up for: narrow types in words, and functions of floats that are good everywhere."""

import ml_dtypes
import numpy as np
import pytest

from vtcore.providers.kernels.declare import buffers

RNG = np.random.default_rng(0)
NARROW = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "u8": np.uint8,
    "i8": np.int8,
}


@pytest.mark.parametrize("dtype", NARROW)
def test_neighbours_in_a_word_are_stored_by_many_at_once(device, made, each, dtype):
    narrow = made("narrow", buffers(reads="x:" + dtype, writes="y:" + dtype), "total", "if (INDEX < total) ST_y(INDEX, LD_x(INDEX));")
    x = RNG.integers(-100, 100, 1001).astype(NARROW[dtype])
    np.testing.assert_array_equal(each(device, narrow, [x], x.size, x.dtype).view(x.dtype), x)


def test_bytes_are_read_one_two_and_four_at_a_time(device, made, each):
    body = "if (INDEX < total) ST_y(INDEX, I32(U8_x(INDEX) + U16_x(INDEX / 2u * 2u) * 3u + U32_x(INDEX / 4u * 4u) % 1000u));"
    read = made("read", buffers(reads="x:bytes", writes="y:i32"), "total", body)
    x = RNG.integers(0, 256, 64, np.uint8)
    at = np.arange(64)
    want = x + x.view("<u2").astype(np.int64)[at // 2] * 3 + x.view("<u4").astype(np.int64)[at // 4] % 1000
    np.testing.assert_array_equal(each(device, read, [x], 64, np.int32), want)


FUNCTIONS = {
    "exp": np.concatenate([np.linspace(-87, 88.7, 4001), [0, -0.0, 1e-30, np.inf, -np.inf, 1000, -1000]]),
    "log": np.concatenate([np.geomspace(1.2e-38, 3.4e38, 4001), np.linspace(0.9, 1.1, 2001), [0, np.inf, -1, 1]]),
    "tanh": np.concatenate([np.linspace(-12, 12, 4001), np.geomspace(1e-30, 1, 501), [0, np.inf, -np.inf]]),
    "sin": np.concatenate([np.linspace(-20, 20, 2001), RNG.uniform(-1e6, 1e6, 4001), np.geomspace(1e-20, 3e38, 501), [0, np.inf]]),
    "cos": np.concatenate([np.linspace(-20, 20, 2001), RNG.uniform(-1e6, 1e6, 4001), np.geomspace(1e-20, 3e38, 501), [0, np.inf]]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_floats_are_good_to_two_units(device, made, each, name):
    body = f"if (INDEX < total) ST_y(INDEX, {name}(LD_x(INDEX)));"
    x = FUNCTIONS[name].astype(np.float32)
    got = each(device, made(name, buffers(reads="x", writes="y"), "total", body), [x], x.size)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.float64))
        finite = np.isfinite(want.astype(np.float32))
        np.testing.assert_array_equal(got[~finite], want[~finite].astype(np.float32))
    far = np.abs(got[finite] - want[finite]) / np.maximum(np.spacing(np.abs(want[finite]).astype(np.float32)), 1e-37)
    assert far.max() <= 2.5, (x[finite][far.argmax()], far.max())


@pytest.mark.parametrize(("name", "most"), [("pow", 3), ("vt_quotient", 0.5000001)])
def test_functions_of_two_floats(device, made, each, name, most):
    body = f"if (INDEX < total) ST_y(INDEX, {name}(LD_x(INDEX), LD_p(INDEX)));"
    x = np.concatenate([RNG.uniform(0.001, 3, 3000), np.geomspace(1e-5, 1e6, 1000), [10000.0] * 100, [-2, -2, 1, 0]]).astype(np.float32)
    y = np.concatenate([RNG.uniform(-5, 5, 3000), np.linspace(-1, 1, 1000), np.linspace(-1, 0, 100), [2, 3, 9, 2]]).astype(np.float32)
    got = each(device, made(name, buffers(reads="x p", writes="y"), "total", body), [x, y], x.size)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y) if name == "pow" else x.astype(np.float64) / y
    got, want = got[np.isfinite(want)], want[np.isfinite(want)]
    far = np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))
    assert far.max() <= most, (want[far.argmax()], far.max())


def test_products_and_sums_are_rounded_one_by_one(device, made, each):
    body = "if (INDEX < total) ST_y(INDEX, LD_a(INDEX) * LD_b(INDEX) + LD_c(INDEX));"
    a, b, c = (RNG.standard_normal(2000).astype(np.float32) for _ in range(3))
    got = each(device, made("apart", buffers(reads="a b c", writes="y"), "total", body), [a, b, c], 2000)
    np.testing.assert_array_equal(got, a * b + c)
