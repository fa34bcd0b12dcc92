"""Floats as they are stored, and as float32: of 16 bits, of 8 bits, and int8 codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtcore.providers.portable.value import F32, I8, I16, I32, Val

if TYPE_CHECKING:
    from vtcore.providers.portable.lanes import Lanes


def widen(k: Lanes, v: Val, dtype: str) -> Val:
    """Stored bits as float32: exact."""
    match dtype:
        case "float16":
            return k.isa.from_half(k, v)
        case "bfloat16":
            return (v.cast("zext", I32) << 16).cast("bitcast", F32)
        case "float8_e5m2":
            return k.isa.from_half(k, v.cast("zext", I16) << 8)
        case "float8_e4m3fn":
            return _from_e4m3(k, v)
        case "int8":
            return v.cast("sext", I32).cast("sitofp", F32)
    return v


def narrow(k: Lanes, v: Val, dtype: str) -> Val:
    """float32 as the bits to store: to nearest, ties to even; in 8 bits what is too large becomes the largest."""
    match dtype:
        case "float16":
            return k.isa.to_half(k, v)
        case "bfloat16":
            bits = v.cast("bitcast", I32)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
            return k.select(v.unordered(), k.lift(0x7FC0, bits.type), rounded).cast("trunc", I16)
        case "float8_e5m2":
            return _eight(k, v, mantissa=2, bias=15, largest=57344.0, nan=0x7E)
        case "float8_e4m3fn":
            return _eight(k, v, mantissa=3, bias=7, largest=448.0, nan=0x7F)
    return v


def _from_e4m3(k: Lanes, v: Val) -> Val:
    """The code's bits where float32 has them, too small by a power of two, also where it is subnormal; of a NaN all of them are set."""
    bits = (v.cast("sext", I32) << 20) & -0x78100000  # the sign comes along: 0x87F00000
    size = bits.cast("bitcast", F32) * 2.0**120
    return k.select((bits & 0x07F00000).eq(0x07F00000), k.lift(float("nan"), size.type), size)


def _eight(k: Lanes, v: Val, *, mantissa: int, bias: int, largest: float, nan: int) -> Val:
    """float32 as an 8-bit float. A number with a subnormal's step as its own rounds those."""
    bits, cut = v.cast("bitcast", I32), 23 - mantissa
    size = k.min((bits & 0x7FFFFFFF).cast("bitcast", F32), largest).cast("bitcast", I32)
    step = 2.0 ** (24 - bias - mantissa)
    tiny = (size.cast("bitcast", F32) + step).cast("bitcast", I32) - k.lift(step, v.type).cast("bitcast", I32)
    normal = (size - ((127 - bias) << 23) + ((1 << cut - 1) - 1) + ((size >> cut) & 1)) >> cut
    code = k.select(size < (128 - bias) << 23, tiny, normal)
    code = k.select(v.unordered(), k.lift(nan, code.type), code)
    return (code | ((bits >> 24) & 0x80)).cast("trunc", I8)
