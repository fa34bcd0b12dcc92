"""The conversions of dense dtypes that weights, scales and KV pages rely on."""

import ml_dtypes
import numpy as np
import pytest


def bfloat16_bits(value: float | int) -> int:
    x = np.array(value, np.uint32).view(np.float32) if isinstance(value, int) else np.array(value, np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return int(x.astype(ml_dtypes.bfloat16).view(np.uint16))


@pytest.mark.parametrize(
    ("value", "bits"), [(3.14, 0x4049), (1e-8, 0x322C), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (0x7F7FFFFF, 0x7F80), (-0.0, 0x8000)]
)
def test_bfloat16_rounds_to_the_nearest_even(value, bits):
    assert bfloat16_bits(value) == bits


@pytest.mark.parametrize("bits", [0x7F800001, 0xFF800001])
def test_bfloat16_keeps_nan_and_its_sign(bits):
    got = bfloat16_bits(bits)
    assert got & 0x7FC0 == 0x7FC0
    assert got >> 15 == bits >> 31


@pytest.mark.parametrize(
    ("value", "bits"), [(2.0**-15, 0x0200), (2.0**-24, 0x0001), (2.0**-25, 0x0000), (1.5 * 2.0**-25, 0x0001), (-0.0, 0x8000)]
)
def test_float16_keeps_subnormals(value, bits):
    assert int(np.float32(value).astype(np.float16).view(np.uint16)) == bits


def test_e8m0_scales_are_powers_of_two():
    got = np.array([0, 1, 127, 134, 254, 255], np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert got[:5].tolist() == [2.0**-127, 2.0**-126, 1, 128, 2.0**127]
    assert np.isnan(got[5])
