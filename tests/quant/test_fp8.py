"""8-bit floats under a scale, against ml_dtypes."""

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vtcore.quant import Blocks
from vtcore.quant.fp8 import E4M3, F8_E4M3


def test_codes_are_those_of_ml_dtypes():
    wanted = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    nan = np.isnan(wanted)
    assert np.flatnonzero(nan).tolist() == [0x7F, 0xFF]
    np.testing.assert_array_equal(E4M3[~nan], wanted[~nan])
    assert E4M3[nan].tolist() == [480, -480]
    assert np.signbit(E4M3[0x80])


@given(arrays(np.uint8, (3, 64)), arrays(np.float32, (3, 2), elements=st.floats(0, 2.0**100, width=32)))
def test_a_value_is_the_code_times_the_scale_rounded_once(codes, scales):
    raw = np.concatenate([scales.view(np.uint8).reshape(3, 2, 4), codes.reshape(3, 2, 32)], -1)
    got = Blocks(raw.reshape(3, 72), F8_E4M3).dequantize()
    exact = E4M3[codes].astype(np.float64) * np.repeat(scales, 32, axis=1)
    np.testing.assert_array_equal(got, exact.astype(np.float32))
