"""ggml's K types: 256 neighbours, whose sub-blocks' small scales share one float16. As in vtcore.quant.k."""

from __future__ import annotations

from vtcore.providers.kernels.blocks.reader import Chunk, Reader, numbers, reads

HALF = "16u * (c % 2u)"  # of 32 bytes, the 16 that are wanted
PAIRS = f"32u * (c / 8u) + {HALF}"  # of groups of 32 bytes whose 2-bit fields are 128 values
PAIR = "c % 8u / 2u * 2u"  # the shift to them


@reads("Q2_K")
def q2_k(b: Reader) -> Chunk:
    """16 bytes of scales (low) and minima (high), 64 of q, d, dmin."""
    q, s = b.fields(b.words(f"16u + {PAIRS}"), PAIR, 3), b.byte("c")
    return Chunk(numbers(q), _times(b, b.half("80u"), f"{s} & 15u"), _times(b, b.half("82u"), f"{s} >> 4"), 16)


@reads("Q3_K")
def q3_k(b: Reader) -> Chunk:
    """32 bytes of high bits, 64 of low bits, 12 of scales, d."""
    low, high = b.fields(b.words(f"32u + {PAIRS}", 2), PAIR, 3), b.fields(b.words(HALF, 2), "c / 2u", 1)
    s = f"(({b.byte('96u + c % 8u')} >> (4u * (c / 8u))) & 15u) | ((({b.byte('104u + c % 4u')} >> (2u * (c / 4u))) & 3u) << 4)"
    return Chunk(numbers(b.with_high(low, high, 2), 4), _times(b, b.half("108u"), s, 32), width=16)


def _scales(b: Reader) -> tuple[str, str]:
    """The 6-bit scale and minimum of a sub-block of 32 in Q4_K and Q5_K, times what they share."""
    first, second, third = (b.byte(f"{at}u + c / 2u % 4u") for at in (4, 8, 12))
    scale = f"c < 8u ? {first} & 63u : ({third} & 15u) | (({first} >> 2) & 48u)"
    least = f"c < 8u ? {second} & 63u : ({third} >> 4) | (({second} >> 2) & 48u)"
    return _times(b, b.half("0u"), scale), _times(b, b.half("2u"), least)


@reads("Q4_K")
def q4_k(b: Reader) -> Chunk:
    """d, dmin, 12 bytes of scales and minima, 128 of q."""
    return Chunk(numbers(b.nibbles(f"16u + 32u * (c / 4u) + {HALF}", "c / 2u % 2u * 4u")), *_scales(b))


@reads("Q5_K")
def q5_k(b: Reader) -> Chunk:
    """d, dmin, 12 bytes of scales and minima, 32 of fifth bits, 128 of nibbles."""
    low = b.nibbles(f"48u + 32u * (c / 4u) + {HALF}", "c / 2u % 2u * 4u")
    return Chunk(numbers(b.with_high(low, b.fields(b.words(f"16u + {HALF}"), "c / 2u", 1), 4)), *_scales(b))


@reads("Q6_K")
def q6_k(b: Reader) -> Chunk:
    """128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, d."""
    low = b.nibbles("64u * (c / 8u) + 16u * (c % 4u)", "c % 8u / 4u * 4u", 2)
    q = b.with_high(low, b.fields(b.words(f"128u + {PAIRS}", 2), PAIR, 3), 4)
    return Chunk(numbers(q, 32), _times(b, b.half("208u"), f"{b.byte('192u + c')} ^ 128u", 128), width=16)


@reads("Q8_K")
def q8_k(b: Reader) -> Chunk:
    """float32 d, 256 signed bytes, 16 sums."""
    return Chunk(b.signed("4u + 16u * c"), b.single("0u"))


def _times(b: Reader, shared: str, number: str, less: int = 0) -> str:
    return b.let(f"{shared} * (F32({number}) - {less}.0f)" if less else f"{shared} * F32({number})", "float")
