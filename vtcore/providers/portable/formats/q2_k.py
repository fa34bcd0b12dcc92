"""Q2_K: d s q - dmin m. 256 values, 84 bytes: 16 bytes of s (low) and m (high nibble) for 16 values each, 64 of bit pairs, float16 d, dmin.

Each half of the block has 32 of the bytes with bit pairs: its runs of 32 values take pair 0, 1, 2, 3."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I8, I16, I32, Val


class Q2K(Layout):
    name, block, nbytes = "Q2_K", 256, 84
    planes, width, heads, smalls, offsets = (2,), 16, 2, 4, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw + 80, I16), k.load(raw + 82, I16)]

    def small(self, k: Lanes, raw: Val, sub: int) -> list[Val]:
        both = [k.load(raw + sub * 2 + part, I8) for part in range(2)]
        return [b & 15 for b in both] + [b >> 4 for b in both]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        half, run = divmod(sub, 4)
        return (k.load(raw + 16 + half * 32 + g * 4, I32) >> (run * 2)) & 0x03030303

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[0] * small[part]

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[1] * small[2 + part]


LAYOUT = Q2K()
