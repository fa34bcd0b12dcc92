"""ggml's first block types: 32 neighbours share a float16 scale d (and a minimum m). Layouts: ggml-common.h, block_q4_0 to block_q8_1.

Element j < 16 of a 4-bit block is the low nibble of byte j, element j + 16 its high nibble; a fifth bit is bit j of a 32-bit word."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.quant.bits import fields, half, numbers
from vtcore.quant.blocks import Codes, define

Array = np.ndarray[Any, Any]


def _nibbles(packed: Array) -> Array:
    return fields(packed, 4).reshape(len(packed), 1, 32)


def _fifth(packed: Array) -> Array:
    return numbers(packed, 1)[:, None, :] << np.uint8(4)


def q4_0(b: Array) -> Codes:
    """d(q - 8): d, 16 bytes of nibbles."""
    return Codes(_nibbles(b[:, 2:]).astype(np.int8) - np.int8(8), half(b[:, :2]), None)


def q4_1(b: Array) -> Codes:
    """d q + m: d, m, 16 bytes of nibbles."""
    return Codes(_nibbles(b[:, 4:]), half(b[:, :2]), -half(b[:, 2:4]))


def q5_0(b: Array) -> Codes:
    """d(q - 16): d, 32 fifth bits, 16 bytes of nibbles."""
    return Codes((_nibbles(b[:, 6:]) | _fifth(b[:, 2:6])).astype(np.int8) - np.int8(16), half(b[:, :2]), None)


def q5_1(b: Array) -> Codes:
    """d q + m: d, m, 32 fifth bits, 16 bytes of nibbles."""
    return Codes(_nibbles(b[:, 8:]) | _fifth(b[:, 4:8]), half(b[:, :2]), -half(b[:, 2:4]))


def q8_0(b: Array) -> Codes:
    """d q: d, 32 signed bytes."""
    return Codes(b[:, None, 2:].view(np.int8), half(b[:, :2]), None)


def q8_1(b: Array) -> Codes:
    """d q: d, the sum of the block (for the other side of a dot product), 32 signed bytes."""
    return Codes(b[:, None, 4:].view(np.int8), half(b[:, :2]), None)


Q4_0 = define("Q4_0", 2, 32, 18, q4_0)
Q4_1 = define("Q4_1", 3, 32, 20, q4_1)
Q5_0 = define("Q5_0", 6, 32, 22, q5_0)
Q5_1 = define("Q5_1", 7, 32, 24, q5_1)
Q8_0 = define("Q8_0", 8, 32, 34, q8_0)
Q8_1 = define("Q8_1", 9, 32, 36, q8_1)
