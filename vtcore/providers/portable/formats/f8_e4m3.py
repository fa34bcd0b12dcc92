"""F8_E4M3: d q, with q an 8-bit float. 32 values, 36 bytes: float32 d, 32 codes of a sign, 4 bits of exponent and 3 of mantissa."""

from __future__ import annotations

from vtcore.providers.portable.formats.layout import Layout
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import F32, I32, Val

BIAS = 2.0**120  # between the exponents of float32 (127) and of the code (7)


class F8(Layout):
    name, nbytes = "F8_E4M3", 36
    planes, head_dtype = (8,), "float32"

    def head(self, k: Lanes, raw: Val) -> list[Val]:
        return [k.load(raw, F32)]

    def quad(self, k: Lanes, raw: Val, sub: int, g: int) -> Val:
        return k.load(raw + 4 + g * 4, I32)

    def number(self, code: Val) -> Val:
        """The code's bits where float32 has them: too small by a power of two, also where it is subnormal."""
        return (((code & 0x7F) << 20) | ((code & 0x80) << 24)).cast("bitcast", F32) * BIAS


LAYOUT = F8()
