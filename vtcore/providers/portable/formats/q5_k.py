"""Q5_K: d s q - dmin m. 256 values, 176 bytes: as Q4_K, with 32 bytes of fifth bits (bit `sub` of byte j) before the nibbles."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import BYTES, Layout
from vtcore.providers.portable.formats.q4_k import scale_and_minimum
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I16, I32, Val


class Q5K(Layout):
    name, block, nbytes = "Q5_K", 256, 176
    planes, heads, smalls, offsets = (4, 1), 2, 2, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16), k.load(raw + 2, I16)]

    def small(self, k: Lanes, raw: Val, sub: int) -> list[Val]:
        return scale_and_minimum(k, raw + 4, sub)

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        low = (k.load(raw + 48 + sub // 2 * 32 + g * 4, I32) >> (sub % 2 * 4)) & 0x0F0F0F0F
        return low | (((k.load(raw + 16 + g * 4, I32) >> sub) & BYTES) << 4)

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[0] * small[0]

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[1] * small[1]


LAYOUT = Q5K()
