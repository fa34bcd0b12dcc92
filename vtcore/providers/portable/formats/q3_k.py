"""Q3_K: d (s - 32) (q - 4). 256 values, 110 bytes: 32 of third bits (bit `sub` of byte j), 64 as in Q2_K, 12 of 6-bit s, float16 d.

s of 16 values each: 4 low bits in the nibbles of the first 8 bytes (low ones first), 2 high bits in pair i // 4 of the last 4 bytes."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import BYTES, Layout
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I8, I16, I32, Val


class Q3K(Layout):
    name, block, nbytes = "Q3_K", 256, 110
    planes, width, zero, smalls, smalls_signed = (2, 1), 16, 4, 2, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw + 108, I16)]

    def small(self, k: Lanes, raw: Val, sub: int) -> list[Val]:
        return [_scale(k, raw + 96, sub * 2 + part) - 32 for part in range(2)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        half, run = divmod(sub, 4)
        low = (k.load(raw + 32 + half * 32 + g * 4, I32) >> (run * 2)) & 0x03030303
        return low | (((k.load(raw + g * 4, I32) >> sub) & BYTES) << 2)

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[0] * small[part]


def _scale(k: Lanes, packed: Val, i: int) -> Val:
    low = (k.load(packed + i % 8, I8) >> (i // 8 * 4)) & 15
    return low | (((k.load(packed + 8 + i % 4, I8) >> (i // 4 * 2)) & 3) << 4)


LAYOUT = Q3K()
