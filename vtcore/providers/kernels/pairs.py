"""Logarithms and exponentials to about 46 bits, as sums of two float32 (Dekker, A floating-point technique for extending the available
precision, 1971), where a definition computes in float64 and its last bits decide.

A helper gives one float: so each is called once for the larger part of its result (part 0) and once for the smaller (part 1). FMA isn't
used where its single rounding would matter: Vulkan's may round twice."""

from __future__ import annotations

LN2_LEFT = (-0.00021219444, 1.646595e-12)  # ln 2 - 0.693359375
SERIES = ((0.14285715, -6.386212e-09), (0.2, -2.9802323e-09), (0.33333334, -9.934108e-09), (1.0, 0.0))  # 1 / (2 n + 1)
FACTORIALS = (  # 1 / n!
    (0.0001984127, -2.7255969e-12), (0.0013888889, -3.3631094e-11), (0.008333334, -4.346172e-10), (0.041666668, -1.2417635e-09),
    (0.16666667, -4.967054e-09), (0.5, 0.0), (1.0, 0.0), (1.0, 0.0),
)  # fmt: skip

# a * b - near, exactly, of a `near` that is no more than an ulp or two from a * b: 12 bits of each factor at a time
REST = """
FN float vt_rest(float a, float b, float near) {
    float a1 = AS_F32(AS_U32(a) & 0xfffff000u), b1 = AS_F32(AS_U32(b) & 0xfffff000u);
    PRECISE float a2 = a - a1, b2 = b - b1;
    PRECISE float rest = ((a1 * b1 - near) + a1 * b2 + a2 * b1) + a2 * b2;
    return rest;
}
"""


def _polynomial(x: str, coefficients: tuple[tuple[float, float], ...]) -> str:
    """(ah, al) times x plus a coefficient, again and again; each is larger than what is added to it."""
    step = f"""
    ph = ah * {x}h;
    pl = vt_rest(ah, {x}h, ph) + (ah * {x}l + al * {x}h);
    ah = HIGH + ph;
    al = ((ph - (ah - HIGH)) + pl) + LOW;
"""
    return "".join(step.replace("HIGH", f"{high!r}f").replace("LOW", f"{low!r}f") for high, low in coefficients)


# log(1 + f) + e ln 2, of 1 + f between sqrt(1/2) and sqrt(2): 2 (s + s^3 / 3 + s^5 / 5 ...) with s = f / (2 + f)
LOG = f"""
FN float vt_log_part(float fh, float fl, float e, uint part) {{
    PRECISE float dh = 2.0f + fh, dl = (fh - (dh - 2.0f)) + fl;
    PRECISE float sh = fh / dh, sl = ((fl - sh * dl) - vt_rest(sh, dh, fh)) / dh;
    PRECISE float zh = sh * sh, zl = vt_rest(sh, sh, zh) + 2.0f * sh * sl;
    PRECISE float ah = 0.11111111f + zh * (0.09090909f + zh * (0.07692308f + zh * (0.06666667f + zh * (0.05882353f + zh * 0.05263158f))));
    PRECISE float al = 0.0f, ph = 0.0f, pl = 0.0f;
    {_polynomial("z", SERIES)}
    ph = ah * sh;
    pl = vt_rest(ah, sh, ph) + (ah * sl + al * sh);
    PRECISE float a = e * 0.693359375f, b = e * {LN2_LEFT[0]!r}f, bl = vt_rest(e, {LN2_LEFT[0]!r}f, b) + e * {LN2_LEFT[1]!r}f;
    PRECISE float first = e == 0.0f ? 2.0f * ph : a + 2.0f * ph, rest = e == 0.0f ? 0.0f : 2.0f * ph - (first - a);
    PRECISE float second = first + b, low = (b - (second - first)) + rest + bl + 2.0f * pl;
    PRECISE float high = second + low;
    return part == 0u ? high : low - (high - second);
}}
FN float vt_log_of(float v, float rest, uint part) {{
    float e = F32(I32(AS_U32(v) >> 23) - 127), m = AS_F32((AS_U32(v) & 0x7fffffu) | 0x3f800000u), by = 1.0f;
    if (m > 1.4142135f) {{ m = m * 0.5f; e += 1.0f; }}
    by = m / v;
    PRECISE float f = m - 1.0f, left = rest * by, high = f + left;
    return vt_log_part(high, left - (high - f), e, part);
}}
"""
# e^r 2^k, of r between -ln 2 / 2 and ln 2 / 2; under e^-80 it is 0
EXP = f"""
FN float vt_exp_part(float xh, float xl, uint part) {{
    if (xh < -80.0f) return 0.0f;
    PRECISE float k = RINT(xh * 1.442695f), b = k * {LN2_LEFT[0]!r}f, bl = vt_rest(k, {LN2_LEFT[0]!r}f, b) + k * {LN2_LEFT[1]!r}f;
    PRECISE float first = FMA(-k, 0.693359375f, xh), second = first - b, back = second - first;
    PRECISE float left = ((first - (second - back)) - (b + back)) - bl + xl;
    PRECISE float rh = second + left, rl = left - (rh - second);
    PRECISE float ah = 2.4801588e-05f + rh * (2.7557319e-06f + rh * (2.755732e-07f + rh * (2.5052108e-08f + rh * 2.0876757e-09f)));
    PRECISE float al = 0.0f, ph = 0.0f, pl = 0.0f;
    {_polynomial("r", FACTORIALS)}
    PRECISE float high = ah + al, low = al - (high - ah);
    float by = AS_F32(U32(I32(k) + 127) << 23);
    return part == 0u ? high * by : low * by;
}}
"""
