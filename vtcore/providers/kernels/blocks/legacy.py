"""ggml's first block types: 32 neighbours under a float16 scale, and a minimum where the name ends in 1. As in vtcore.quant.legacy."""

from __future__ import annotations

from vtcore.providers.kernels.blocks.reader import Chunk, Reader, bytes_of, numbers, reads


@reads("Q4_0")
def q4_0(b: Reader) -> Chunk:
    """d(q - 8): d, 16 bytes of nibbles."""
    return Chunk(numbers(b.nibbles("2u", "4u * c", 2), 8), b.half("0u"))


@reads("Q4_1")
def q4_1(b: Reader) -> Chunk:
    """d q + m: d, m, 16 bytes of nibbles."""
    return Chunk(numbers(b.nibbles("4u", "4u * c")), b.half("0u"), _minus(b, "2u"))


@reads("Q5_0")
def q5_0(b: Reader) -> Chunk:
    """d(q - 16): d, 32 fifth bits, 16 bytes of nibbles."""
    return Chunk([f"(F32({v}) - 16.0f)" for v in _fives(b, "2u", "6u", 2)], b.half("0u"))


@reads("Q5_1")
def q5_1(b: Reader) -> Chunk:
    """d q + m: d, m, 32 fifth bits, 16 bytes of nibbles."""
    return Chunk([f"F32({v})" for v in _fives(b, "4u", "8u", 4)], b.half("0u"), _minus(b, "2u"))


@reads("Q8_0")
def q8_0(b: Reader) -> Chunk:
    """d q: d, 32 signed bytes."""
    return Chunk(b.signed("2u + 16u * c", 2), b.half("0u"))


@reads("Q8_1")
def q8_1(b: Reader) -> Chunk:
    """d q: d, the sum of the block, 32 signed bytes."""
    return Chunk(b.signed("4u + 16u * c"), b.half("0u"))


def _minus(b: Reader, at: str) -> str:
    return b.let(f"-{b.half(at)}", "float")


def _fives(b: Reader, bits: str, nibbles: str, even: int) -> list[str]:
    fifth = b.let(f"({b.word(bits, even)} >> (16u * c)) << 4")
    return [f"({v} | (({fifth} >> {j}u) & 16u))" for j, v in enumerate(bytes_of(b.nibbles(nibbles, "4u * c", even)))]
