"""4-bit floats (E2M1) under a shared scale, as ggml stores them.

Formats: OCP Microscaling v1.0 (MXFP4), NVIDIA's NVFP4; layouts: ggml-common.h. Both hold
E2M1 doubled, so that codes are integers, and halve the scale instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.quant.bits import fields
from vtcore.quant.blocks import Codes, define

Array = np.ndarray[Any, Any]
E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)


def _half_e8m0() -> Array:
    """2**(e - 128) for e of 0 to 255, float32 [256]. Code 255, NaN in OCP's text, is one more power of two in ggml."""
    return np.array([2.0 ** (e - 128) for e in range(256)], np.float32)


def _half_ue4m3() -> Array:
    """Half of the unsigned 4-bit exponent, 3-bit mantissa number, float32 [256]; the top bit is ignored, 0x7F is 0."""
    code = np.arange(256)
    exponent, mantissa = code >> 3 & 15, (code & 7).astype(np.float32)
    table: Array = np.asarray(np.ldexp(np.where(exponent == 0, mantissa, 8 + mantissa), np.maximum(exponent, 1) - 11), np.float32)
    table[0x7F] = 0
    return table


HALF_E8M0, HALF_UE4M3 = _half_e8m0(), _half_ue4m3()


def mxfp4(b: Array) -> Codes:
    """One E8M0 scale for 32: e, 16 bytes of nibbles, low ones first."""
    return Codes(E2M1_DOUBLED[fields(b[:, 1:], 4)].reshape(-1, 1, 32), HALF_E8M0[b[:, :1]], None)


def nvfp4(b: Array) -> Codes:
    """Four sub-blocks of 16 with an unsigned E4M3 scale each: 4 scales, then 8 bytes of nibbles for each, low ones first."""
    return Codes(E2M1_DOUBLED[fields(b[:, 4:].reshape(-1, 4, 8), 4)].reshape(-1, 4, 16), HALF_UE4M3[b[:, :4]], None)


MXFP4 = define("MXFP4", 39, 32, 17, mxfp4)
NVFP4 = define("NVFP4", 40, 64, 36, nvfp4)
