"""Q4_1: d q + m. 32 values, 20 bytes: float16 d and m, 16 bytes of nibbles."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout, nibbles
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I16, Val


class Q41(Layout):
    name, nbytes = "Q4_1", 20
    planes, heads, offsets = (4,), 2, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16), k.load(raw + 2, I16)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return nibbles(k, raw + 4, g)

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        return -head[1]


LAYOUT = Q41()
