"""Q4_K: d s q - dmin m. 256 values, 144 bytes: float16 d and dmin, 12 bytes of 6-bit s and m for each 32, 128 bytes of nibbles.

Bytes 32 c to 32 c + 31 of the nibbles hold the values of sub-block 2 c (low) and 2 c + 1 (high)."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I8, I16, I32, Val


def scale_and_minimum(k: Lanes, packed: Val, sub: int) -> list[Val]:
    """The 6-bit s and m of a sub-block: the low six bits of bytes sub and sub + 4; from the fifth on, a nibble and two top bits each."""
    if sub < 4:
        return [k.load(packed + sub, I8) & 63, k.load(packed + sub + 4, I8) & 63]
    low, first, second = (k.load(packed + at, I8) for at in (sub + 4, sub - 4, sub))
    return [(low & 15) | ((first >> 6) << 4), (low >> 4) | ((second >> 6) << 4)]


class Q4K(Layout):
    name, block, nbytes = "Q4_K", 256, 144
    planes, heads, smalls, offsets = (4,), 2, 2, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16), k.load(raw + 2, I16)]

    def small(self, k: Lanes, raw: Val, sub: int) -> list[Val]:
        return scale_and_minimum(k, raw + 4, sub)

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return (k.load(raw + 16 + sub // 2 * 32 + g * 4, I32) >> (sub % 2 * 4)) & 0x0F0F0F0F

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[0] * small[0]

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[1] * small[1]


LAYOUT = Q4K()
