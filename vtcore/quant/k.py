"""ggml's K types: 256 neighbours in sub-blocks of 16 or 32, whose small integer scales share one float16. Layouts: ggml-common.h,
block_q2_K to block_q8_K."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.quant.bits import fields, half, words
from vtcore.quant.blocks import Codes, define

Array = np.ndarray[Any, Any]


def _runs(packed: Array, bits: int, width: int) -> Array:
    """Bytes [n, m] in groups of `width`, each group's lowest fields first: [n, m * 8 / bits / width, width]."""
    return fields(packed.reshape(len(packed), -1, width), bits).reshape(len(packed), -1, width)


def q2_k(b: Array) -> Codes:
    """d s q - dmin m, 16 sub-blocks of 16: 16 bytes of s (low) and m (high), 64 of q, d, dmin."""
    scales, q = b[:, :16], _runs(b[:, 16:80], 2, 32)
    return Codes(q.reshape(-1, 16, 16), half(b[:, 80:82]) * (scales & 15), half(b[:, 82:84]) * (scales >> 4))


def q3_k(b: Array) -> Codes:
    """d (s - 32) q, 16 sub-blocks of 16: 32 bytes of high bits, 64 of low bits, 12 of s, d; q is 4 less where the high bit is clear."""
    high, low = _runs(b[:, :32], 1, 32), _runs(b[:, 32:96], 2, 32)
    q = (low | high << np.uint8(2)).astype(np.int8) - np.int8(4)
    low_scale, high_scale = _runs(b[:, 96:104], 4, 8), _runs(b[:, 104:108], 2, 4)
    scales = (low_scale.reshape(-1, 16) | high_scale.reshape(-1, 16) << np.uint8(4)).astype(np.int8) - np.int8(32)
    return Codes(q.reshape(-1, 16, 16), half(b[:, 108:110]) * scales, None)


def scales_and_minima(b: Array) -> tuple[Array, Array]:
    """The 12 bytes of Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima, uint8 [n, 8] each.

    The low 6 bits of bytes 0-3 and 4-7 are the first four of each; the last four take 4 bits from bytes 8-11 and 2 from the tops of 0-7."""
    first, second, third = b[:, :4], b[:, 4:8], b[:, 8:12]
    scales = np.concatenate([first & 63, third & 15 | first >> 2 & 48], axis=1)
    return scales, np.concatenate([second & 63, third >> 4 | second >> 2 & 48], axis=1)


def q4_k(b: Array) -> Codes:
    """d s q - dmin m, 8 sub-blocks of 32: d, dmin, 12 bytes of s and m, 128 of q."""
    s, m = scales_and_minima(b[:, 4:16])
    return Codes(_runs(b[:, 16:144], 4, 32), half(b[:, :2]) * s, half(b[:, 2:4]) * m)


def q5_k(b: Array) -> Codes:
    """d s q - dmin m, 8 sub-blocks of 32: d, dmin, 12 bytes of s and m, 32 of fifth bits, 128 of nibbles."""
    s, m = scales_and_minima(b[:, 4:16])
    q = _runs(b[:, 48:176], 4, 32) | _runs(b[:, 16:48], 1, 32) << np.uint8(4)
    return Codes(q, half(b[:, :2]) * s, half(b[:, 2:4]) * m)


def q6_k(b: Array) -> Codes:
    """d s (q - 32), 16 sub-blocks of 16: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed s, d."""
    low, high = _runs(b[:, :128], 4, 64).reshape(-1, 8, 32), _runs(b[:, 128:192], 2, 32)
    q = (low | high << np.uint8(4)).astype(np.int8) - np.int8(32)
    return Codes(q.reshape(-1, 16, 16), half(b[:, 208:210]) * b[:, 192:208].view(np.int8), None)


def q8_k(b: Array) -> Codes:
    """d q: float32 d, 256 signed bytes, 16 sums (for the other side of a dot product)."""
    return Codes(b[:, 4:260].view(np.int8).reshape(-1, 8, 32), np.repeat(words(b[:, :4], "f4"), 8, axis=1), None)


Q2_K = define("Q2_K", 10, 256, 84, q2_k)
Q3_K = define("Q3_K", 11, 256, 110, q3_k)
Q4_K = define("Q4_K", 12, 256, 144, q4_k)
Q5_K = define("Q5_K", 13, 256, 176, q5_k)
Q6_K = define("Q6_K", 14, 256, 210, q6_k)
Q8_K = define("Q8_K", 15, 256, 292, q8_k)
