from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.witness import normal, within_one_ulp
from vtcore.errors import OpError
from vtcore.ops import linear, linear_q8, per_head
from vtcore.ops.exact import BLOCK
from vtcore.ops.inputs import blocks
from vtcore.ops.linear import quantize_q8
from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks, Codes


def exact(x, weight, bias=None):
    """Rational arithmetic, rounded once."""
    rows = [[Fraction(float(v)) for v in row] for row in x]
    columns = [[Fraction(float(v)) for v in row] for row in weight]
    extra = [Fraction(0)] * len(columns) if bias is None else [Fraction(float(b)) for b in bias]
    return np.array([[float(sum(a * b for a, b in zip(r, c, strict=True)) + e) for c, e in zip(columns, extra, strict=True)] for r in rows])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_linear_is_the_exact_sum_rounded_once(dtype):
    x, weight, bias = normal(0, 3, 65).astype(dtype), normal(1, 9, 65).astype(dtype), normal(2, 9).astype(dtype)
    np.testing.assert_array_equal(linear(x, weight, bias), exact(x, weight, bias).astype(np.float32))
    np.testing.assert_array_equal(linear(x, weight), exact(x, weight).astype(np.float32))


def test_large_terms_that_cancel_leave_the_small_one():
    x = np.array([[1e8, 1, -1e8]], np.float32)
    assert linear(x, np.ones((1, 3), np.float32)).tolist() == [[1.0]]


def test_the_bias_takes_part_before_the_rounding():
    x, weight = np.array([1, 2.0**-25], np.float32), np.ones((1, 2), np.float32)
    bias = np.array([2.0**-25 + 2.0**-40], np.float32)
    assert linear(x, weight, bias)[0] == np.float32(1 + 2.0**-23)


def test_a_long_weight_is_read_in_pieces():
    columns = BLOCK // 2  # two rows a piece
    x, weight = normal(0, 2, columns), normal(1, 5, columns)
    within_one_ulp(linear(x, weight), np.float64(x) @ np.float64(weight).T)


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 70), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_a_row_does_not_depend_on_its_neighbours(rows, columns, outputs, seed):
    x, weight = normal(seed, rows, columns), normal(seed + 1, outputs, columns)
    whole = linear(x, weight)
    for i in range(rows):
        np.testing.assert_array_equal(linear(x[i], weight), whole[i])
        np.testing.assert_array_equal(linear(x[i:], weight), whole[i:])


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_quantised_weights_stand_for_their_values(name):
    fmt = FORMATS[name]
    weight, x = blocks(np.random.default_rng(0), 3, 2 * fmt.block, fmt), normal(1, 2, 2 * fmt.block)
    np.testing.assert_array_equal(linear(x, weight), linear(x, weight.dequantize()))


@pytest.mark.parametrize("lead", [(), (0,), (2, 0), (2, 3)])
def test_leading_axes_stay(lead):
    assert linear(np.ones((*lead, 4), np.float32), np.ones((5, 4), np.float32)).shape == (*lead, 5)


def test_no_columns_and_no_outputs():
    assert linear(np.ones((2, 0), np.float32), np.ones((3, 0), np.float32)).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert linear(np.ones((2, 4), np.float32), np.ones((0, 4), np.float32)).shape == (2, 0)


def test_infinities_and_nan_stay_in_their_rows():
    x = np.array([[np.inf, 1], [np.nan, 1], [1, 1]], np.float32)
    got = linear(x, np.array([[1, 1], [0, 1]], np.float32))
    assert got[0, 0] == np.inf
    assert np.isnan(got[0, 1])
    assert np.isnan(got[1]).all()
    assert got[2].tolist() == [2, 1]


def test_codes_of_activations_round_half_to_even():
    codes, scale = quantize_q8(np.array([127, 0.5, 1.5, 2.5, -0.5, -1.5, -127, 0.49] + [0] * 24, np.float32))
    assert scale.tolist() == [1]
    assert codes[:8].tolist() == [127, 0, 2, 2, 0, -2, -127, 0]


def test_codes_of_a_zero_a_subnormal_and_an_infinite_block():
    x = np.zeros(96, np.float32)
    x[32:64] = 1e-44
    x[70] = np.inf
    x[33] = -178 * 2.0**-149  # its scale, 1.4 of the smallest float32, is rounded to one
    codes, scale = quantize_q8(x)
    assert codes[33] == -127
    assert scale[0] == 0
    assert np.isnan(scale[2])
    assert (np.abs(codes) <= 127).all()
    assert not codes[:32].any()
    assert not codes[64:].any()


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_codes_are_half_a_step_away_at_most(seed, size):
    x = normal(seed, 64) * np.float32(size)
    codes, scale = quantize_q8(x)
    step = np.repeat(scale.astype(np.float64), 32)
    assert (np.abs(codes * step - x) <= step * 0.5001).all()
    assert np.abs(codes.reshape(2, 32)).max(-1).tolist() == [127, 127]


def test_integers_are_exact():
    rng = np.random.default_rng(0)
    x, codes = rng.integers(-127, 128, (3, 64)).astype(np.float32), rng.integers(-128, 128, (5, 64)).astype(np.int8)
    x[:, ::32] = 127  # every block's scale is one
    raw = np.zeros((5, 2, 34), np.uint8)
    raw[..., :2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    raw[..., 2:] = codes.reshape(5, 2, 32).view(np.uint8)
    got = linear_q8(x, Blocks(raw.reshape(5, 68), FORMATS["Q8_0"]))
    np.testing.assert_array_equal(got, x.astype(np.int64) @ codes.astype(np.int64).T)


def q8_by_hand(row, codes, bias):
    """The docstring's order with one float32 at a time."""
    f, out = np.float32, []
    width = codes.code.shape[-1]
    for n in range(len(codes.code)):
        total = f(0)
        for b in range(len(row) // 32):
            part = row[32 * b : 32 * b + 32]
            d = f(np.abs(part).max() / f(127))
            q = [int(v) for v in np.clip(np.rint(part / d), -127, 127)] if d else [0] * 32
            products, offsets = f(0), f(0)
            for j in range(32 // width):
                own, sub = q[j * width : (j + 1) * width], b * (32 // width) + j
                products = f(products + f(codes.scale[n, sub] * f(sum(a * int(c) for a, c in zip(own, codes.code[n, sub], strict=True)))))
                if codes.offset is not None:
                    offsets = f(offsets + f(codes.offset[n, sub] * f(sum(own))))
            block = f(d * products)
            total = f(total + (block if codes.offset is None else f(block - f(d * offsets))))
        out.append(f(total + f(bias[n])))
    return out


@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_1", "Q5_1", "Q6_K", "Q2_K", "Q4_K"])
def test_linear_q8_by_hand(name):
    fmt, rng = FORMATS[name], np.random.default_rng(3)
    columns = max(fmt.block, 96 // fmt.block * fmt.block)
    weight, x, bias = blocks(rng, 3, columns, fmt), normal(4, 2, columns), normal(5, 3)
    x[1, :32] = 0
    want = [q8_by_hand(row, weight.codes(), bias) for row in x]
    np.testing.assert_array_equal(linear_q8(x, weight, bias), np.array(want, np.float32))


@pytest.mark.parametrize("name", sorted(n for n, f in FORMATS.items() if f.codes))
def test_linear_q8_is_linear_on_the_rounded_activations(name):
    fmt = FORMATS[name]
    weight, x = blocks(np.random.default_rng(0), 5, 2 * fmt.block, fmt), normal(1, 3, 2 * fmt.block)
    rounded = [codes * np.repeat(scale, 32) for codes, scale in map(quantize_q8, x)]
    want = linear(np.array(rounded, np.float32), weight)
    assert np.abs(linear_q8(x, weight) - want).max() <= 1e-5 * np.abs(want).max()


def test_an_infinite_activation_makes_its_row_nan_and_no_other():
    weight, x = blocks(np.random.default_rng(0), 4, 64, FORMATS["Q4_1"]), normal(0, 3, 64)
    clean = linear_q8(x, weight)
    x[1, 40] = np.inf
    got = linear_q8(x, weight)
    assert np.isnan(got[1]).all()
    np.testing.assert_array_equal(got[::2], clean[::2])


def test_linear_q8_needs_an_integer_form():
    fmt = BlockFormat("FLOATY", -1, 32, 32, lambda raw: raw.astype(np.float32))
    with pytest.raises(OpError, match="weight is FLOATY, which has no integer form; use linear"):
        linear_q8(np.ones((1, 32), np.float32), Blocks(np.zeros((2, 32), np.uint8), fmt))


def test_sub_blocks_are_combined_within_their_block():
    code = np.ones((1, 2, 16), np.int32)
    fmt = BlockFormat(
        "TWO", -1, 32, 1, lambda raw: np.ones((len(raw), 32), np.float32), lambda raw: Codes(code, np.array([[2, 3]], np.float32), None)
    )
    x = np.concatenate([np.full(16, 127), np.full(16, -127)]).astype(np.float32)
    assert linear_q8(x, Blocks(np.zeros((1, 1), np.uint8), fmt)).tolist() == [16 * 127 * (2 - 3)]


def test_per_head_by_hand():
    x, weight = normal(0, 3, 2, 5), normal(1, 2, 5, 4)
    want = [[exact(x[t, h : h + 1], weight[h].T)[0] for h in range(2)] for t in range(3)]
    np.testing.assert_array_equal(per_head(x, weight), np.array(want).astype(np.float32))
