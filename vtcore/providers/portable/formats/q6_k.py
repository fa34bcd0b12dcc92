"""Q6_K: d s (q - 32). 256 values, 210 bytes: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed s (for 16 values each), float16 d.

Each half of the block has 64 and 32 of those bytes: its four runs of 32 values take the low, then the high nibbles, and bit pair `run`."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I8, I16, I32, Val


class Q6K(Layout):
    name, block, nbytes = "Q6_K", 256, 210
    planes, width, zero, smalls, smalls_signed = (4, 2), 16, 32, 2, True

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw + 208, I16)]

    def small(self, k: Lanes, raw: Val, sub: int) -> list[Val]:
        return [k.load(raw + 192 + sub * 2 + part, I8) for part in range(2)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        half, run = divmod(sub, 4)
        low = (k.load(raw + half * 64 + run % 2 * 32 + g * 4, I32) >> (run // 2 * 4)) & 0x0F0F0F0F
        return low | (((k.load(raw + 128 + half * 32 + g * 4, I32) >> (run * 2)) & 0x03030303) << 4)

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[0] * small[part]


LAYOUT = Q6K()
