"""Types of one to two bits without a grid. As in vtcore.quant.ternary."""

from __future__ import annotations

from vtcore.providers.kernels.blocks.k import PAIR, PAIRS
from vtcore.providers.kernels.blocks.reader import Chunk, Reader, bytes_of, numbers, reads

POWER = """
FN uint power_of_three(uint n) { return n < 2u ? (n == 0u ? 1u : 3u) : n == 2u ? 9u : n == 3u ? 27u : 81u; }
"""


@reads("TQ1_0", helpers=POWER)
def tq1_0(b: Reader) -> Chunk:
    """d(t - 1): 32 bytes of five digits, 16 of five, 4 of four, d. A byte is its digits as a fraction of 1, in 256ths."""
    begin = b.let("c < 10u ? 16u * (c % 2u) : c < 15u ? 32u : 48u")
    codes = []
    for i in range(4):
        word = b.word(f"{begin} + (c < 15u ? {4 * i}u : 0u)", 2)
        power = b.let(f"power_of_three(c < 10u ? c / 2u : c < 15u ? c - 10u : {i}u)")
        codes += [f"(F32((((({q} * {power}) & 255u) * 3u) >> 8)) - 1.0f)" for q in bytes_of([word])]
    return Chunk(codes, b.half("52u"))


@reads("TQ2_0")
def tq2_0(b: Reader) -> Chunk:
    """d(q - 1): two halves of 32 bytes, each four runs of 2-bit q; d."""
    return Chunk(numbers(b.fields(b.words(PAIRS, 2), PAIR, 3), 1), b.half("64u"))


@reads("Q1_0")
def q1_0(b: Reader) -> Chunk:
    """d where the bit is set, -d where it is clear: d, 128 bits."""
    bits = b.let(f"{b.pair('2u + 2u * c')} << 1")
    return Chunk([f"(F32(({bits} >> {j}u) & 2u) - 1.0f)" for j in range(16)], b.half("0u"))
