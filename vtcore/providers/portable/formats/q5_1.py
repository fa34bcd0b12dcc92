"""Q5_1: d q + m. 32 values, 24 bytes: float16 d and m, the fifth bits as a 32-bit word, 16 bytes of nibbles."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout, nibbles, spread
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I16, I32, Val


class Q51(Layout):
    name, nbytes = "Q5_1", 24
    planes, heads, offsets = (4, 1), 2, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16), k.load(raw + 2, I16)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return nibbles(k, raw + 8, g) | (spread(k.load(raw + 4, I32) >> (g * 4)) << 4)

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        return -head[1]


LAYOUT = Q51()
