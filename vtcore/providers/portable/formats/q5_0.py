"""Q5_0: d (q - 16). 32 values, 22 bytes: float16 d, the fifth bits as a 32-bit word, 16 bytes of nibbles."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout, nibbles, spread
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I16, I32, Val


class Q50(Layout):
    name, nbytes = "Q5_0", 22
    planes, zero = (4, 1), 16

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return nibbles(k, raw + 6, g) | (spread(k.load(raw + 2, I32) >> (g * 4)) << 4)


LAYOUT = Q50()
