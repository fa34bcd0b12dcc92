"""Q8_0: d q. 32 values, 34 bytes: float16 d, 32 signed bytes."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I16, I32, Val


class Q8(Layout):
    name, nbytes = "Q8_0", 34
    planes, signed = (8,), True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, I16)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return k.load(raw + 2 + g * 4, I32)


LAYOUT = Q8()
