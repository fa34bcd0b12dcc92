"""4-bit floats under a shared scale, and 8-bit floats under a float32 one. As in vtcore.quant.microscaling and fp8.

E2M1 is held doubled, so that codes are integers, and the scale halved instead."""

from __future__ import annotations

from vtcore.providers.kernels.blocks.reader import Chunk, Reader, bytes_of, reads

E2M1 = """
FN float e2m1(uint q) {
    uint m = q & 7u, a = m < 4u ? m : (m & 1u) == 0u ? (m == 4u ? 4u : 8u) : (m == 5u ? 6u : 12u);
    return q > 7u ? -F32(a) : F32(a);
}
"""
E8M0 = """
FN float half_e8m0(uint e) { return AS_F32(e > 1u ? (e - 1u) << 23 : 0x00200000u << e); }
"""
UE4M3 = """
FN float half_ue4m3(uint b) { return (b & 127u) == 127u ? 0.0f : vt_from_e4m3(b & 127u) * 0.5f; }
"""
E4M3 = """
FN float e4m3(uint b) { return (b & 127u) == 127u ? (b > 127u ? -480.0f : 480.0f) : vt_from_e4m3(b); }
"""


@reads("MXFP4", helpers=E2M1 + E8M0)
def mxfp4(b: Reader) -> Chunk:
    """One E8M0 scale for 32: e, 16 bytes of nibbles."""
    codes = [f"e2m1({q})" for q in bytes_of(b.nibbles("1u", "4u * c", 1))]
    return Chunk(codes, b.let(f"half_e8m0({b.byte('0u')})", "float"))


@reads("NVFP4", helpers=E2M1 + UE4M3)
def nvfp4(b: Reader) -> Chunk:
    """Four sub-blocks of 16 with an unsigned E4M3 scale each: 4 scales, then 8 bytes of nibbles for each."""
    both = b.words("4u + 8u * c", count=2)
    codes = [f"e2m1({q})" for shift in (0, 4) for q in bytes_of(b.fields(both, f"{shift}u", 15))]
    return Chunk(codes, b.let(f"half_ue4m3({b.byte('c')})", "float"), width=16)


@reads("F8_E4M3", helpers=E4M3)
def f8_e4m3(b: Reader) -> Chunk:
    """float32 d, 32 bytes. The codes that would be NaN go on in steps, as the definition has them."""
    return Chunk([f"e4m3({q})" for q in bytes_of(b.words("4u + 16u * c"))], b.single("0u"))
