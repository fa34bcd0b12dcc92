"""ggml's IQ types: neighbours are looked up together in a grid of patterns, or one by one in a table of 16 (IQ4). Layouts: ggml-common.h.

The grids come from the gguf package, when one is first needed. Codes are grid * sign; in IQ1 they are 8 * grid + 1 or - 1, as it shifts the
pattern by an eighth."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from vtcore.quant.bits import fields, half, numbers, words
from vtcore.quant.blocks import Codes, define

Array = np.ndarray[Any, Any]
IQ4_VALUES = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8)


@cache
def grid(name: str) -> Array:
    """The patterns of a type, int8 [patterns, 4 or 8]."""
    from gguf import quants  # takes a while to import

    kind = getattr(quants, name)
    bits = 2 if len(kind.grid_map) <= 4 else 4
    packed = np.frombuffer(bytes.fromhex(kind.grid_hex.decode()), np.uint8)
    values = np.array(kind.grid_map, np.int8)
    table: Array = np.asarray(values[numbers(packed, bits)], np.int8).reshape(-1, int(kind.grid_shape[1]))
    table.flags.writeable = False
    return table


def _signs(bits: Array) -> Array:
    """Bytes [..., n] -> int8 [..., 8 n], -1 where the bit is set."""
    return np.int8(1) - (numbers(bits, 1) << np.uint8(1)).astype(np.int8)


def _even(codes: Array) -> Array:
    """7-bit sign codes -> sign bytes: the eighth bit makes the number of minus signs even."""
    bits = codes.astype(np.uint8) & np.uint8(127)
    odd: Array = np.bitwise_count(bits) & np.uint8(1)
    return bits | odd << np.uint8(7)


def _sevens(word: Array) -> Array:
    """uint32 [n, m] of four 7-bit sign codes (and 4 bits of scale on top) -> sign bytes [n, 4 m]."""
    return _even(word[..., None] >> np.array([0, 7, 14, 21], np.uint32)).reshape(len(word), -1)


def _patterns(name: str, index: Array, signs: Array | None, width: int) -> Array:
    """Codes [n, 256 / width, width]: the patterns of a grid, some negated."""
    code = grid(name)[index].reshape(len(index), 256)
    return (code if signs is None else code * _signs(signs)).reshape(len(index), -1, width)


def _scales(d: Array, packed: Array, factor: float) -> Array:
    """d (0.5 + s) factor for nibbles s, low ones first."""
    return d * (np.float32(0.5) + numbers(packed, 4)) * np.float32(factor)


def iq2_xxs(b: Array) -> Codes:
    """d, then for every 32: four 8-bit indices, four 7-bit sign codes, a 4-bit scale."""
    pairs = words(b[:, 2:], "u4").reshape(-1, 8, 2)
    index, word = np.ascontiguousarray(pairs[..., 0]).view(np.uint8), pairs[..., 1]
    scale = half(b[:, :2]) * (np.float32(0.5) + (word >> 28).astype(np.float32)) * np.float32(0.25)
    return Codes(_patterns("IQ2_XXS", index, _sevens(word), 32), scale, None)


def iq2_xs(b: Array) -> Codes:
    """d, 32 words of a 9-bit index and a 7-bit sign code, 16 scales of 4 bits."""
    word = words(b[:, 2:66], "u2")
    return Codes(_patterns("IQ2_XS", word & 511, _even(word >> 9), 16), _scales(half(b[:, :2]), b[:, 66:], 0.25), None)


def iq2_s(b: Array) -> Codes:
    """d, 32 low bytes of the indices, 32 bytes of signs, 8 of the indices' two high bits, 16 scales of 4 bits."""
    index = b[:, 2:34] | numbers(b[:, 66:74], 2).astype(np.uint16) << 8
    return Codes(_patterns("IQ2_S", index, b[:, 34:66], 16), _scales(half(b[:, :2]), b[:, 74:], 0.25), None)


def iq3_xxs(b: Array) -> Codes:
    """d, 64 indices of 8 bits, then for every 32: four 7-bit sign codes and a 4-bit scale."""
    word = words(b[:, 66:], "u4")
    scale = half(b[:, :2]) * (np.float32(0.5) + (word >> 28).astype(np.float32)) * np.float32(0.5)
    return Codes(_patterns("IQ3_XXS", b[:, 2:66], _sevens(word), 32), scale, None)


def iq3_s(b: Array) -> Codes:
    """d, 64 low bytes of the indices, 64 ninth bits, 32 bytes of signs, 8 scales s of 4 bits that stand for 1 + 2 s."""
    index = b[:, 2:66] | numbers(b[:, 66:74], 1).astype(np.uint16) << 8
    scale = half(b[:, :2]) * (1 + 2 * numbers(b[:, 106:], 4))
    return Codes(_patterns("IQ3_S", index, b[:, 74:106], 32), scale, None)


def _shifted(index: Array, minus: Array, width: int) -> Array:
    """IQ1: 8 * grid + 1, or - 1 where `minus` (one for every 8 neighbours) is set."""
    sign = np.where(minus, np.int8(-1), np.int8(1))
    return (grid("IQ1_S")[index] * np.int8(8) + sign[..., None]).reshape(len(index), -1, width)


def iq1_s(b: Array) -> Codes:
    """d, 32 low bytes of the indices, then for every 32 a word: four times three index bits, a 3-bit scale, the shift's sign."""
    word = words(b[:, 34:], "u2")
    high = (word[..., None] >> np.array([0, 3, 6, 9], np.uint16) & 7).reshape(len(b), -1)
    scale = half(b[:, :2]) * (2 * (word >> 12 & 7) + 1) * np.float32(0.125)
    return Codes(_shifted(b[:, 2:34] | high << 8, np.repeat(word >> 15, 4, axis=1), 32), scale, None)


def iq1_m(b: Array) -> Codes:
    """32 low bytes of the indices, 32 nibbles (three index bits, the shift's sign), four words (four 3-bit scales, a quarter of d)."""
    nibble, word = numbers(b[:, 32:48], 4), words(b[:, 48:], "u2")
    d = np.bitwise_or.reduce((word & 0xF000) >> np.array([12, 8, 4, 0], np.uint16), axis=1, keepdims=True)
    s = (word[..., None] >> np.array([0, 3, 6, 9], np.uint16) & 7).reshape(len(b), 16)
    scale = d.view(np.float16).astype(np.float32) * (2 * s + 1) * np.float32(0.125)
    return Codes(_shifted(b[:, :32] | (nibble & 7).astype(np.uint16) << 8, nibble & 8, 16), scale, None)


def iq4_nl(b: Array) -> Codes:
    """d, 16 bytes of nibbles as in Q4_0, each a row of the table."""
    return Codes(IQ4_VALUES[fields(b[:, 2:], 4)].reshape(-1, 1, 32), half(b[:, :2]), None)


def iq4_xs(b: Array) -> Codes:
    """d, 8 scales of 6 bits (a word of their high pairs, 4 bytes of low nibbles), 128 bytes of nibbles, 16 for every 32."""
    high = words(b[:, 2:4], "u2") >> np.arange(0, 16, 2, dtype=np.uint16) & 3
    scales = (numbers(b[:, 4:8], 4) | high.astype(np.uint8) << np.uint8(4)).astype(np.int8) - np.int8(32)
    return Codes(IQ4_VALUES[fields(b[:, 8:].reshape(-1, 8, 16), 4)].reshape(-1, 8, 32), half(b[:, :2]) * scales, None)


IQ2_XXS = define("IQ2_XXS", 16, 256, 66, iq2_xxs)
IQ2_XS = define("IQ2_XS", 17, 256, 74, iq2_xs)
IQ3_XXS = define("IQ3_XXS", 18, 256, 98, iq3_xxs)
IQ1_S = define("IQ1_S", 19, 256, 50, iq1_s)
IQ4_NL = define("IQ4_NL", 20, 32, 18, iq4_nl)
IQ3_S = define("IQ3_S", 21, 256, 110, iq3_s)
IQ2_S = define("IQ2_S", 22, 256, 82, iq2_s)
IQ4_XS = define("IQ4_XS", 23, 256, 136, iq4_xs)
IQ1_M = define("IQ1_M", 29, 256, 56, iq1_m)
