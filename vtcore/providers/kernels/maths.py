"""Functions of float32 that the dialect lacks, or that a target computes too coarsely (Vulkan's exp and log), within about 1e-7.

The coefficients are those of the portable provider: minimax fits made for these ranges. Not a number stays so; limits are reached without
overflow. `text(body)` gives the helpers that a body calls."""

from __future__ import annotations

from collections.abc import Sequence

from vtcore.providers.portable.maths import ERFC, EXP, FARTHEST, LOG, TANH


def _horner(x: str, coefficients: Sequence[float]) -> str:
    """c0 + c1 x + c2 x^2 + ... as nested products."""
    total = f"{coefficients[-1]!r}f"
    for c in reversed(coefficients[:-1]):
        total = f"FMA({total}, {x}, {c!r}f)"
    return total


PARTS: dict[str, str] = {
    "fn_nan": """
FN bool fn_nan(float x) { return (AS_U32(x) & 0x7fffffffu) > 0x7f800000u; }
""",
    "fn_exp": f"""
FN float fn_exp(float x) {{
    if (fn_nan(x)) return x;
    float y = min(max(x, -87.3f), 88.7f), n = RINT(y * 1.4426950408889634f);
    float r = FMA(n, 2.12194440e-4f, FMA(n, -0.693359375f, y));
    float p = FMA({_horner("r", EXP)} * r, r, r) + 1.0f;
    int k = I32(n), near = k / 2;
    p = p * AS_F32(U32(near + 127) << 23) * AS_F32(U32(k - near + 127) << 23);
    return x < -87.3f ? 0.0f : (x > 88.7228f ? AS_F32(0x7f800000u) : p);
}}
""",
    "fn_exp_rest": f"""
FN float fn_exp_rest(float x) {{
    if (ABS(x) < 0.3466f) return x * x * {_horner("x", EXP)};
    return fn_exp(x) - 1.0f - x;
}}
""",
    "fn_log": f"""
FN float fn_log(float x) {{
    int bits = I32(AS_U32(x)), e = (bits - 0x3f3504f3) >> 23;
    float m = AS_F32(U32(bits - (e << 23))), n = F32(e), s = (m - 1.0f) / (m + 1.0f), z = s * s;
    return FMA(n, 0.693359375f, FMA(n, -2.12194440e-4f, s * z * {_horner("z", LOG)}) + (s + s));
}}
""",
    "fn_softplus": """
FN float fn_softplus(float x) {
    if (fn_nan(x)) return x;
    float small = fn_exp(-ABS(x)), u = small + 1.0f;
    return max(x, 0.0f) + (u == 1.0f ? small : fn_log(u) * small / (u - 1.0f));
}
""",
    "fn_sigmoid": """
FN float fn_sigmoid(float x) { return 1.0f / (fn_exp(-x) + 1.0f); }
""",
    "fn_tanh": f"""
FN float fn_tanh(float x) {{
    float size = ABS(x), z = x * x;
    if (size < 0.65f) return FMA({_horner("z", TANH)} * z, x, x);
    float large = 1.0f - 2.0f / (fn_exp(size + size) + 1.0f);
    return x < 0.0f ? -large : large;
}}
""",
    # x * x - square, exactly but for its last bits: 12 bits of x first, whose square is exact. Vulkan's FMA may round twice
    "fn_square_rest": """
FN float fn_square_rest(float x, float square) {
    float high = AS_F32(AS_U32(x) & 0xfffff000u);
    PRECISE float low = x - high, rest = (high * high - square) + (x + high) * low;
    return rest;
}
""",
    "fn_normal_share": f"""
FN float fn_normal_share(float x) {{
    float y = min(ABS(x), {FARTHEST!r}f), square = y * y, t = 1.0f / FMA(y, 0.35355339059327373f, 1.0f);
    float bell = fn_exp(square * -0.5f), exact = FMA(bell * fn_square_rest(y, square), -0.5f, bell);
    float tail = exact * {_horner("t", ERFC)} * t * 0.5f;
    return x < 0.0f ? tail : 1.0f - tail;
}}
""",
    "fn_silu": """
FN float fn_silu(float x) { return x / (fn_exp(-x) + 1.0f); }
""",
    "fn_gelu": """
FN float fn_gelu(float x) { return x * fn_normal_share(x); }
""",
    "fn_gelu_tanh": """
FN float fn_gelu_tanh(float x) { return x * fn_sigmoid(FMA(x * x * x, 0.044715f, x) * 1.5957691216057308f); }
""",
    "fn_quick_gelu": """
FN float fn_quick_gelu(float x) { return x * fn_sigmoid(x * 1.702f); }
""",
    "fn_relu": """
FN float fn_relu(float x) { return x < 0.0f ? 0.0f : x; }
""",
    "fn_at_most": """
FN float fn_at_most(float x, float limit) { return x > limit ? limit : x; }
""",
    "fn_within": """
FN float fn_within(float x, float limit) { return x < -limit ? -limit : (x > limit ? limit : x); }
""",
}


def text(code: str) -> str:
    """The functions that some code calls, and those that they call, in an order in which they may stand."""
    wanted = {name for name in PARTS if f"{name}(" in code}
    for name in reversed(PARTS):
        if name in wanted:
            wanted |= {other for other in PARTS if f"{other}(" in PARTS[name]}
    return "".join(part for name, part in PARTS.items() if name in wanted)
