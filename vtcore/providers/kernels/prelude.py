"""What every target's text begins with, in the dialect itself: conversions of narrow floats, by the bits of integers.

f16: IEEE 754 binary16; bf16: the upper half of a float32; e4m3, e5m2: OCP 8-bit floating point (2023). All round half to even;
e4m3 and e5m2 take what is too large to their largest value, as the caches' definition does."""

from __future__ import annotations

WIDEN = """
FN float vt_from_f16(uint h) {
    uint sign = (h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;
    if (e == 0u) { float v = F32(m) * 5.9604644775390625e-8f; return sign != 0u ? -v : v; }
    return AS_F32(e == 31u ? (sign | 0x7f800000u | (m << 13)) : (sign | ((e + 112u) << 23) | (m << 13)));
}
FN float vt_from_bf16(uint h) { return AS_F32(h << 16); }
FN float vt_from_e4m3(uint b) {
    uint sign = (b & 128u) << 24, e = (b >> 3) & 15u, m = b & 7u;
    if ((b & 127u) == 127u) return AS_F32(0x7fc00000u);
    if (e == 0u) { float v = F32(m) * 0.001953125f; return sign != 0u ? -v : v; }
    return AS_F32(sign | ((e + 120u) << 23) | (m << 20));
}
FN float vt_from_e5m2(uint b) { return vt_from_f16(b << 8); }
"""
NARROW = """
FN uint vt_halved(uint a, uint shift) {
    uint m = (a & 0x7fffffu) | 0x800000u, kept = m >> shift, rest = m & ((1u << shift) - 1u), half_way = 1u << (shift - 1u);
    return kept + (rest > half_way || (rest == half_way && (kept & 1u) == 1u) ? 1u : 0u);
}
FN uint vt_to_bf16(float v) {
    uint u = AS_U32(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u >> 16) | 64u;
    return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
FN uint vt_to_f16(float v) {
    uint u = AS_U32(v), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return sign | 0x7e00u;
    if (a >= 0x477ff000u) return sign | 0x7c00u;
    if (a < 0x33000001u) return sign;
    if (a < 0x38800000u) return sign | vt_halved(a, 126u - (a >> 23));
    return sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13);
}
FN uint vt_to_e4m3(float v) {
    uint u = AS_U32(v), sign = (u >> 24) & 128u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return sign | 127u;
    if (a >= 0x43e00000u) return sign | 126u;
    if (a >= 0x3c800000u) return sign | ((a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20);
    return sign | (a < 0x3a800000u ? 0u : vt_halved(a, 141u - (a >> 23)));
}
FN uint vt_to_e5m2(float v) {
    uint u = AS_U32(v), sign = (u >> 24) & 128u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return sign | 126u;
    if (a >= 0x47600000u) return sign | 123u;
    if (a >= 0x38800000u) return sign | ((a - 0x38000000u + 0xfffffu + ((a >> 21) & 1u)) >> 21);
    return sign | (a < 0x37000000u ? 0u : vt_halved(a, 134u - (a >> 23)));
}
"""


# a / b rounded correctly, where a target's own quotient may not be but its FMA rounds once (Markstein, 1990)
QUOTIENT = """
FN float vt_quotient(float a, float b) {
    float q = a / b, better = FMA(FMA(-q, b, a), 1.0f / b, q);
    return ABS(q) < 3.0e38f && ABS(q) > 1.0e-30f && ABS(b) > 1.0e-30f ? better : q;
}
"""


def needed(text: str, quotient: bool = True) -> str:
    """The parts of the prelude that a generated text uses; `quotient`: its own, of targets that have none."""
    parts = ((WIDEN, "vt_from_"), (NARROW, "vt_to_"), *(((QUOTIENT, "vt_quotient"),) if quotient else ()))
    return "".join(part for part, words in parts if words in text)
