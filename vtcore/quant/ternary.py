"""Types of one to two bits without a grid: TQ1_0 and TQ2_0 (BitNet's -1, 0, 1) and Q1_0 (signs). Layouts: ggml-common.h."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.quant.bits import fields, half, numbers
from vtcore.quant.blocks import Codes, define

Array = np.ndarray[Any, Any]


def _signed(digits: Array, d: Array) -> Codes:
    """d(digit - 1), the one scale given to every 32 neighbours."""
    code = (digits.astype(np.int8) - np.int8(1)).reshape(len(d), -1, 32)
    return Codes(code, np.repeat(d, code.shape[1], axis=1), None)


def _trits(packed: Array, count: int) -> Array:
    """The first `count` base-3 digits of every byte, [n, count * bytes]: a byte is the digits as a fraction of 1, in 256ths."""
    shifted = packed[:, None, :] * np.array([1, 3, 9, 27, 81][:count], np.uint8)[:, None]  # the wrap at 256 drops the digits before
    return (shifted.astype(np.uint16) * 3 >> 8).reshape(len(packed), -1)


def tq1_0(b: Array) -> Codes:
    """d(t - 1): 32 bytes of five digits, 16 of five, 4 of four, d."""
    return _signed(np.concatenate([_trits(b[:, :32], 5), _trits(b[:, 32:48], 5), _trits(b[:, 48:52], 4)], axis=1), half(b[:, 52:54]))


def tq2_0(b: Array) -> Codes:
    """d(q - 1): two halves of 32 bytes, each four runs of 2-bit q; d."""
    return _signed(fields(b[:, :64].reshape(-1, 2, 32), 2), half(b[:, 64:66]))


def q1_0(b: Array) -> Codes:
    """d where the bit is set, -d where it is clear: d, 128 bits."""
    return _signed(numbers(b[:, 2:], 1) << np.uint8(1), half(b[:, :2]))


TQ1_0 = define("TQ1_0", 34, 256, 54, tq1_0)
TQ2_0 = define("TQ2_0", 35, 256, 66, tq2_0)
Q1_0 = define("Q1_0", 41, 128, 18, q1_0)
