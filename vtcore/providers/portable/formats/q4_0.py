"""Q4_0: d (q - 8). 32 values, 18 bytes: float16 d, 16 bytes of nibbles."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout, nibbles
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I16, Val


class Q40(Layout):
    name, nbytes = "Q4_0", 18
    planes, zero = (4,), 8

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return nibbles(k, raw + 2, g)


LAYOUT = Q40()
