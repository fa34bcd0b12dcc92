"""Functions of floats that Vulkan promises too little of.

Its sin and cos hold only within [-pi, pi], its exp loses bits with its argument, its tanh near 0. These are good to about two units in
the last place on every device. A sine's argument is reduced by integers, with as many bits of 2/pi as any float32 needs (Payne and Hanek,
Radian reduction for trigonometric functions, 1983); polynomials after S. Moshier's Cephes library (1989). They count
on it that operations stand as written, which the SPIR-V says of each."""

from __future__ import annotations

import re

from vtcore.providers.kernels.declare import Kernel

EXP = """
float vt_exp(float x) {
    if ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u) return x;
    if (x > 88.72284f) return uintBitsToFloat(0x7f800000u);
    if (x < -103.98f) return 0.0f;
    float k = roundEven(x * 1.44269504f);
    float r = fma(k, -0.693359375f, x);
    r = fma(k, 2.12194440e-4f, r);
    float p = fma(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = fma(p, r, 8.3334519073e-3f);
    p = fma(p, r, 4.1665795894e-2f);
    p = fma(p, r, 1.6666665459e-1f);
    p = fma(p, r, 5.0000001201e-1f);
    p = fma(p, r * r, r) + 1.0f;
    int half_way = int(k) >> 1, rest = int(k) - half_way;
    return p * uintBitsToFloat(uint(half_way + 127) << 23) * uintBitsToFloat(uint(rest + 127) << 23);
}
"""
LOG = """
vec2 vt_log_parts(uint u) {
    float e = 0.0f, m;
    if (u < 0x800000u) { u = floatBitsToUint(float(u)); e = -149.0f; }
    m = uintBitsToFloat((u & 0x7fffffu) | 0x3f000000u);
    e += float(int(u >> 23) - 126);
    if (m < 0.707106781f) { m += m; e -= 1.0f; }
    return vec2(e, m - 1.0f);
}
float vt_log(float x) {
    uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) == 0u) return uintBitsToFloat(0xff800000u);
    if (u >= 0x80000000u) return uintBitsToFloat(0x7fc00000u);
    if (u >= 0x7f800000u) return x;
    vec2 parts = vt_log_parts(u);
    float e = parts.x, f = parts.y, z = f * f;
    float p = fma(7.0376836292e-2f, f, -1.1514610310e-1f);
    p = fma(p, f, 1.1676998740e-1f);
    p = fma(p, f, -1.2420140846e-1f);
    p = fma(p, f, 1.4249322787e-1f);
    p = fma(p, f, -1.6668057665e-1f);
    p = fma(p, f, 2.0000714765e-1f);
    p = fma(p, f, -2.4999993993e-1f);
    p = fma(p, f, 3.3333331174e-1f);
    p = p * f * z;
    p = fma(e, -2.12194440e-4f, p);
    p = fma(z, -0.5f, p);
    return fma(e, 0.693359375f, f + p);
}
"""
TANH = """
float vt_tanh(float x) {
    float a = abs(x);
    if (a < 0.625f) {
        float z = a * a, p = fma(-5.70498872745e-3f, z, 2.06390887954e-2f);
        p = fma(p, z, -5.37397155531e-2f);
        p = fma(p, z, 1.33314422036e-1f);
        p = fma(p, z, -3.33332819422e-1f);
        return fma(p * z, x, x);
    }
    float t = 1.0f - 2.0f / (vt_exp(2.0f * min(a, 20.0f)) + 1.0f);
    if ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u) return x;
    return x < 0.0f ? -t : t;
}
"""
TRIG = """
const uint VT_TWO_OVER_PI[8] = uint[8](0u, 0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
uint vt_window(uint at, uint shift) {
    return shift == 0u ? VT_TWO_OVER_PI[at] : (VT_TWO_OVER_PI[at] << shift) | (VT_TWO_OVER_PI[at + 1u] >> (32u - shift));
}
float vt_reduced(float x, out uint quadrant) {
    uint u = floatBitsToUint(x) & 0x7fffffffu;
    quadrant = 0u;
    if (u < 0x3f490fdbu) return x;
    if (u >= 0x7f800000u) return uintBitsToFloat(0x7fc00000u);
    uint m = ((u & 0x7fffffu) | 0x800000u) << 8, p = (u >> 23) - 96u, at = p >> 5, shift = p & 31u;
    uint top = m * vt_window(at, shift), h1, l1, h2, l2, carry, carry2;
    umulExtended(m, vt_window(at + 1u, shift), h1, l1);
    umulExtended(m, vt_window(at + 2u, shift), h2, l2);
    uint low = uaddCarry(l1, h2, carry), high = top + h1 + carry;
    uint q = (high + 0x20000000u) >> 30;
    high -= q << 30;
    bool below = (high >> 31) != 0u;
    if (below) { low = ~low + 1u; high = ~high + (low == 0u ? 1u : 0u); }
    uint z = high != 0u ? uint(31 - findMSB(high)) : uint(63 - findMSB(max(low, 1u)));
    uint lead = z == 0u ? high : z < 32u ? (high << z) | (low >> (32u - z)) : low << (z - 32u);
    float r = fma(float(lead >> 8), 256.0f, float(lead & 255u)) * uintBitsToFloat((97u - z) << 23) * 1.57079633f;
    bool negative = x < 0.0f;
    quadrant = negative ? 0u - q : q;
    return below != negative ? -r : r;
}
float vt_sin_part(float r) {
    float z = r * r, p = fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
    return fma(fma(p, z, -1.6666654611e-1f) * z, r, r);
}
float vt_cos_part(float r) {
    float z = r * r, p = fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    return fma(fma(p, z, 4.166664568298827e-2f) * z, z, fma(z, -0.5f, 1.0f));
}
float vt_turn(float x, uint more) {
    uint quadrant;
    float r = vt_reduced(x, quadrant);
    quadrant += more;
    float v = (quadrant & 1u) != 0u ? vt_cos_part(r) : vt_sin_part(r);
    return (quadrant & 2u) != 0u ? -v : v;
}
"""
POW = """
vec2 vt_sum(float a, float b) {
    float s = a + b, v = s - a, e = (a - (s - v)) + (b - v);
    return vec2(s, e);
}
vec2 vt_product(float a, float b) {
    float p = a * b;
    float a1 = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u), b1 = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
    float a2 = a - a1, b2 = b - b1;
    float e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2;
    return vec2(p, e);
}
vec2 vt_log_pair(float x) {
    vec2 parts = vt_log_parts(floatBitsToUint(x));
    float f = parts.y, e = parts.x;
    vec2 d = vt_sum(2.0f, f);
    float s = f / d.x;
    vec2 back = vt_product(s, d.x);
    float s2 = (((f - back.x) - back.y) - s * d.y) / d.x;
    float z = s * s;
    float p = fma(fma(fma(0.22222222f, z, 0.28571429f), z, 0.4f), z, 0.66666667f);
    vec2 cube = vt_product(z, s), third = vt_product(cube.x, 0.66666667f);
    float z2 = vt_product(s, s).y, rest = (p - 0.66666667f) * cube.x;
    float small = third.y + rest + 0.66666667f * (z2 * s + cube.y) - 1.98682151e-8f * cube.x + 2.0f * z * s2 + 2.0f * s2;
    vec2 whole = vt_sum(e * 0.693359375f, 2.0f * s), sum = vt_sum(whole.x, third.x);
    return vt_sum(sum.x, sum.y + whole.y + small - e * 2.12194440e-4f);
}
float vt_pow(float x, float y) {
    if (y == 0.0f || x == 1.0f) return 1.0f;
    uint u = floatBitsToUint(x), a = u & 0x7fffffffu;
    if (a > 0x7f800000u || (floatBitsToUint(y) & 0x7fffffffu) > 0x7f800000u) return uintBitsToFloat(0x7fc00000u);
    if (a == 0u) return y > 0.0f ? 0.0f : uintBitsToFloat(0x7f800000u);
    bool odd = false;
    if (u != a) {
        if (floor(y) != y) return uintBitsToFloat(0x7fc00000u);
        odd = floor(y * 0.5f) * 2.0f != y;
    }
    float r;
    if (a == 0x7f800000u) r = y > 0.0f ? uintBitsToFloat(0x7f800000u) : 0.0f;
    else {
        vec2 l = vt_log_pair(uintBitsToFloat(a)), t = vt_product(l.x, clamp(y, -1e9f, 1e9f));
        r = vt_exp(t.x);
        if (r > 0.0f && floatBitsToUint(r) < 0x7f800000u) r = fma(r, t.y + l.y * y, r);
    }
    return odd ? -r : r;
}
"""
# a / b rounded correctly: Vulkan lets its quotient be 2.5 units off, and its fma round twice. Products are split (Dekker, 1971)
QUOTIENT = """
float vt_rest(float a, float q, float b) {
    float q1 = uintBitsToFloat(floatBitsToUint(q) & 0xfffff000u), b1 = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u);
    float q2 = q - q1, b2 = b - b1, p = q * b;
    return (a - p) - (((q1 * b1 - p) + q1 * b2 + q2 * b1) + q2 * b2);
}
float vt_quotient(float a, float b) {
    float q = a / b, better = q + vt_rest(a, q, b) / b;
    better += vt_rest(a, better, b) / b;
    return abs(q) < 3.0e38f && abs(q) > 1.0e-30f && abs(b) > 1.0e-30f && abs(a) > 1.0e-30f ? better : q;
}
"""
NEEDS = {
    "exp": (EXP,),
    "log": (LOG,),
    "tanh": (EXP, TANH),
    "sin": (TRIG,),
    "cos": (TRIG,),
    "pow": (EXP, LOG, POW),
    "vt_quotient": (QUOTIENT,),
}
NAMED = {
    "sin": "#define sin(x) vt_turn(x, 0u)\n",
    "cos": "#define cos(x) vt_turn(x, 1u)\n",
    "pow": "#define pow(x, y) vt_pow(x, y)\n",
    **{name: f"#define {name}(x) vt_{name}(x)\n" for name in ("exp", "log", "tanh")},
}


def functions(kernel: Kernel) -> str:
    """Those that a kernel calls, and names that stand for them."""
    used = [name for name in NEEDS if re.search(rf"\b{name}\s*\(", kernel.body + kernel.helpers)]
    parts = dict.fromkeys(part for name in used for part in NEEDS[name])
    return "".join(parts) + "".join(NAMED.get(name, "") for name in used)
