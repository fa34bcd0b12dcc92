"""ggml's IQ types: neighbours come together from a grid of patterns, or one by one from a table of 16 (IQ4). As in vtcore.quant.iq."""

from __future__ import annotations

from vtcore.providers.kernels.blocks.reader import Chunk, Reader, bytes_of, reads
from vtcore.quant.iq import IQ4_VALUES

EVEN = """
FN uint even_signs(uint bits) {
    uint b = bits & 127u, p = b ^ (b >> 4);
    p ^= p >> 2;
    return b | (((p ^ (p >> 1)) & 1u) << 7);
}
"""
_RAISED = [sum((int(v) + 128) << (8 * i) for i, v in enumerate(IQ4_VALUES[at : at + 4])) for at in range(0, 16, 4)]
IQ4 = f"""
FN float iq4_value(uint q) {{
    uint w = q < 8u ? (q < 4u ? {_RAISED[0]}u : {_RAISED[1]}u) : (q < 12u ? {_RAISED[2]}u : {_RAISED[3]}u);
    return F32((w >> (q % 4u * 8u)) & 255u) - 128.0f;
}}
"""


def _pattern(b: Reader, index: str, width: int) -> list[str]:
    """A pattern of the grid, as bytes."""
    at = b.let(f"({index}) * {width}u")
    return bytes_of([b.let(f"U32_grid({at} + {i}u)") for i in range(0, width, 4)])


def _negated(patterns: list[str], signs: list[str]) -> list[str]:
    """16 bytes as floats, negative where their bit of two bytes of signs is set."""
    return [f"((({signs[j // 8]} >> {j % 8}u) & 1u) > 0u ? -F32({v}) : F32({v}))" for j, v in enumerate(patterns)]


def _nibble_scale(b: Reader, at: int, number: str) -> str:
    return f"F32(({b.byte(f'{at}u + {number} / 2u')} >> (4u * ({number} % 2u))) & 15u)"


def _sevens(b: Reader, word: str) -> list[str]:
    """The bytes of signs from two 7-bit codes of a word that has four."""
    return [b.let(f"even_signs({word} >> (14u * (c % 2u) + {7 * p}u))") for p in range(2)]


@reads("IQ2_XXS", helpers=EVEN, grid="IQ2_XXS")
def iq2_xxs(b: Reader) -> Chunk:
    """d, then for every 32: four 8-bit indices, four 7-bit sign codes, a 4-bit scale."""
    index, word = b.pair("2u + 8u * (c / 2u) + 2u * (c % 2u)"), b.word("6u + 8u * (c / 2u)", 2)
    patterns = [v for p in range(2) for v in _pattern(b, f"({index} >> {8 * p}u) & 255u", 8)]
    return Chunk(_negated(patterns, _sevens(b, word)), b.let(f"{b.half('0u')} * (0.5f + F32({word} >> 28)) * 0.25f", "float"))


@reads("IQ2_XS", helpers=EVEN, grid="IQ2_XS")
def iq2_xs(b: Reader) -> Chunk:
    """d, 32 words of a 9-bit index and a 7-bit sign code, 16 scales of 4 bits."""
    words = [b.pair(f"2u + 4u * c + {2 * p}u") for p in range(2)]
    patterns = [v for w in words for v in _pattern(b, f"{w} & 511u", 8)]
    signs = [b.let(f"even_signs({w} >> 9)") for w in words]
    return Chunk(_negated(patterns, signs), _half_up(b, 66, "c"), width=16)


@reads("IQ2_S", grid="IQ2_S")
def iq2_s(b: Reader) -> Chunk:
    """d, 32 low bytes of the indices, 32 bytes of signs, 8 of the indices' two high bits, 16 scales of 4 bits."""
    high = b.let(f"{b.byte('66u + c / 2u')} >> (4u * (c % 2u))")
    low = [b.byte(f"2u + 2u * c + {p}u") for p in range(2)]
    patterns = [v for p in range(2) for v in _pattern(b, f"{low[p]} | ((({high} >> {2 * p}u) & 3u) << 8)", 8)]
    return Chunk(_negated(patterns, [b.byte(f"34u + 2u * c + {p}u") for p in range(2)]), _half_up(b, 74, "c"), width=16)


@reads("IQ3_XXS", helpers=EVEN, grid="IQ3_XXS")
def iq3_xxs(b: Reader) -> Chunk:
    """d, 64 indices of 8 bits, then for every 32: four 7-bit sign codes and a 4-bit scale."""
    word = b.word("66u + 4u * (c / 2u)", 2)
    patterns = [v for p in range(4) for v in _pattern(b, b.byte(f"2u + 4u * c + {p}u"), 4)]
    return Chunk(_negated(patterns, _sevens(b, word)), b.let(f"{b.half('0u')} * (0.5f + F32({word} >> 28)) * 0.5f", "float"))


@reads("IQ3_S", grid="IQ3_S")
def iq3_s(b: Reader) -> Chunk:
    """d, 64 low bytes of the indices, 64 ninth bits, 32 bytes of signs, 8 scales s of 4 bits that stand for 1 + 2 s."""
    ninth = b.let(f"{b.byte('66u + c / 2u')} >> (4u * (c % 2u))")
    low = [b.byte(f"2u + 4u * c + {p}u") for p in range(4)]
    patterns = [v for p in range(4) for v in _pattern(b, f"{low[p]} | ((({ninth} >> {p}u) & 1u) << 8)", 4)]
    scale = b.let(f"{b.half('0u')} * (1.0f + 2.0f * {_nibble_scale(b, 106, '(c / 2u)')})", "float")
    return Chunk(_negated(patterns, [b.byte(f"74u + 2u * c + {p}u") for p in range(2)]), scale)


@reads("IQ1_S", grid="IQ1_S")
def iq1_s(b: Reader) -> Chunk:
    """d, 32 low bytes of the indices, then for every 32 a word: four times three index bits, a 3-bit scale, the shift's sign."""
    word = b.pair("34u + c / 2u * 2u")
    index = [f"{b.byte(f'2u + 2u * c + {p}u')} | ((({word} >> (6u * (c % 2u) + {3 * p}u)) & 7u) << 8)" for p in range(2)]
    codes = [v for i in index for v in _shifted(b, i, f"{word} > 32767u")]
    return Chunk(codes, _odd(b, b.half("0u"), f"{word} >> 12"))


@reads("IQ1_M", grid="IQ1_S")
def iq1_m(b: Reader) -> Chunk:
    """32 low bytes of the indices, 32 nibbles (three index bits, the shift's sign), four words (four 3-bit scales, a quarter of d)."""
    words, nibbles = [b.pair(f"{48 + 2 * i}u") for i in range(4)], b.byte("32u + c")
    index = [f"{b.byte(f'2u * c + {p}u')} | ((({nibbles} >> {4 * p}u) & 7u) << 8)" for p in range(2)]
    codes = [v for p, i in enumerate(index) for v in _shifted(b, i, f"(({nibbles} >> {4 * p}u) & 8u) > 0u")]
    parts = (f"({words[0]} >> 12)", *(f"(({w} & 0xf000u) >> {s}u)" for w, s in zip(words[1:], (8, 4, 0), strict=True)))
    d = b.let(f"vt_from_f16({' | '.join(parts)})", "float")
    return Chunk(codes, _odd(b, d, f"{b.pair('48u + c / 4u * 2u')} >> (3u * (c % 4u))"), width=16)


@reads("IQ4_NL", helpers=IQ4)
def iq4_nl(b: Reader) -> Chunk:
    """d, 16 bytes of nibbles as in Q4_0, each a row of the table."""
    return Chunk([f"iq4_value({q})" for q in bytes_of(b.nibbles("2u", "4u * c", 2))], b.half("0u"))


@reads("IQ4_XS", helpers=IQ4)
def iq4_xs(b: Reader) -> Chunk:
    """d, 8 scales of 6 bits (a word of their high pairs, 4 bytes of low nibbles), 128 bytes of nibbles, 16 for every 32."""
    codes = [f"iq4_value({q})" for q in bytes_of(b.nibbles("8u + 16u * (c / 2u)", "4u * (c % 2u)"))]
    low, high = b.byte("4u + c / 4u"), b.pair("2u")
    scale = f"(({low} >> (4u * (c / 2u % 2u))) & 15u) | ((({high} >> (c / 2u * 2u)) & 3u) << 4)"
    return Chunk(codes, b.let(f"{b.half('0u')} * (F32({scale}) - 32.0f)", "float"))


def _shifted(b: Reader, index: str, minus: str) -> list[str]:
    """IQ1: eight times a pattern of -1, 0, 1, plus 1, or minus 1 where `minus`."""
    shift = b.let(f"{minus} ? -1.0f : 1.0f", "float")
    return [f"((F32(({v} + 1u) & 255u) - 1.0f) * 8.0f + {shift})" for v in _pattern(b, index, 8)]


def _half_up(b: Reader, at: int, number: str) -> str:
    return b.let(f"{b.half('0u')} * (0.5f + {_nibble_scale(b, at, number)}) * 0.25f", "float")


def _odd(b: Reader, d: str, bits: str) -> str:
    return b.let(f"{d} * (2.0f * F32(({bits}) & 7u) + 1.0f) * 0.125f", "float")
