"""What is kept of a row of logits: by min_p, and by top_k and top_p. Decided as exactly as their definitions do in float64.

For top_p a row's probabilities become integers of 64 bits, in parts of 2^-44 of the largest, whose sums are exact. Then a token's key is
found, digit by digit, at which what stands above it reaches p."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, integers, rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.pairs import EXP, LOG, REST
from vtcore.providers.kernels.selecting import DIGITS, EDGE, EDGE_SHARED, KEY, NAN_FIRST
from vtcore.tensor import Tensor, empty

# A difference under 6e-17 is none to an exponential in float64.
MIN_P = kernel(
    "apply_min_p",
    buffers(reads="x min_p", writes="y"),
    "n row",
    """
    uint from = GROUP * row, to = GROUP * n;
    float least = LD_min_p(GROUP), most = AS_F32(0xff800000u), lost = 0.0f;
    for (uint i = LANE; i < n; i += WG) {
        float v = LD_x(from + i);
        if ((AS_U32(v) & 0x7fffffffu) > 0x7f800000u) lost = 1.0f;
        else most = max(most, v);
    }
    float best = GROUP_MAX(most), edge = 0.0f, edge_rest = 0.0f;
    bool cuts = GROUP_MAX(lost) < 0.5f && least > 0.0f;
    if (cuts) {
        edge = vt_log_of(least, 0.0f, 0u);
        edge_rest = vt_log_of(least, 0.0f, 1u);
    }
    for (uint i = LANE; i < n; i += WG) {
        float v = LD_x(from + i);
        PRECISE float less = v - best, back = less - v, rest = (v - (less - back)) - (best + back);
        if (ABS(less) > 3.0e38f) rest = 0.0f;
        PRECISE float under = (less - edge) + (rest - edge_rest);
        ST_y(to + i, cuts && under < -6.0e-17f ? AS_F32(0xff800000u) : v);
    }
""",
    helpers=REST + LOG,
    group=256,
)
# `low` and `high`: the 64 bits of a sum. A weight is e^(x - top) in parts of 2^-44.
WEIGHT = """
FN uint vt_weight(float v, float top, uint part) {
    PRECISE float less = v - top, back = less - v, rest = (v - (less - back)) - (top + back);
    float w = 0.0f, left = 0.0f;
    if (less > -80.0f) {
        w = vt_exp_part(less, rest, 0u);
        left = vt_exp_part(less, rest, 1u);
    }
    uint high = U32(floor(w * 4096.0f));
    float below = (w - F32(high) * 0.000244140625f) * 17592186044416.0f, whole = floor(below);
    int more = I32(RINT((below - whole) + left * 17592186044416.0f));
    uint low = U32(whole) + U32(more);
    if (more >= 0 && low < U32(more)) high += 1u;
    if (more < 0 && low > U32(whole)) high -= 1u;
    return part == 0u ? low : high;
}
"""
# a product's upper half; a share of a sum, rounded up; whether one sum is under another
SHARE = """
FN uint vt_high(uint a, uint b) {
    uint middle = (a >> 16) * (b & 0xffffu) + (((a & 0xffffu) * (b & 0xffffu)) >> 16), other = (a & 0xffffu) * (b >> 16);
    return (a >> 16) * (b >> 16) + (middle >> 16) + (other >> 16) + (((middle & 0xffffu) + (other & 0xffffu)) >> 16);
}
FN uint vt_part_of(float share, uint low, uint high, uint part) {
    uint e = AS_U32(share) >> 23, m = (AS_U32(share) & 0x7fffffu) | 0x800000u;
    if (share <= 0.0f || e == 0u) return 0u;
    uint w0 = low * m, w1 = high * m, w2 = vt_high(high, m), carry = vt_high(low, m), by = 150u - e, lost = 0u;
    w1 += carry;
    if (w1 < carry) w2 += 1u;
    for (uint k = 0u; k < 3u; k++) if (by >= 32u) { lost |= w0; w0 = w1; w1 = w2; w2 = 0u; by -= 32u; }
    if (by >= 32u) return part == 0u ? 1u : 0u;
    if (by > 0u) {
        lost |= w0 << (32u - by);
        w0 = (w0 >> by) | (w1 << (32u - by));
        w1 = (w1 >> by) | (w2 << (32u - by));
    }
    if (lost != 0u) { w0 += 1u; if (w0 == 0u) w1 += 1u; }
    return part == 0u ? w0 : w1;
}
FN bool vt_under(uint low, uint high, uint edge_low, uint edge_high) { return high < edge_high || (high == edge_high && low < edge_low); }
"""
# Of all rows: what is under the k-th largest becomes -inf.
TOP_K = kernel(
    "cut_to_k",
    buffers(reads="x k:i32", writes="y"),
    "n row",
    f"""
    uint from = GROUP * row, to = GROUP * n, left = n;
    int wanted = LD_k(GROUP);
    if (wanted > 0 && U32(wanted) < n) left = U32(wanted);
    uint seen = left < n ? n : 0u;
    {EDGE.replace("KEY_AT(i)", "vt_key(LD_x(from + i))").replace("i < n", "i < seen")}
    for (uint run = 0u; run < n; run += WG) {{
        uint i = run + LANE;
        float v = LD_x(from + min(i, n - 1u));
        bool kept = edge == 0xffffffffu || vt_key(v) >= edge;
        if (i < n) ST_y(to + i, kept ? v : AS_F32(0xff800000u));
    }}
""",
    helpers=KEY,
    shared=EDGE_SHARED,
    constants=NAN_FIRST | {"DIGITS": DIGITS},
    group=256,
)
# Then of rows whose p is under 1: each token's weight, and whether the row is to be cut.
WEIGHTS = kernel(
    "weights_of_row",
    buffers(reads="y p", writes="lows:u32 highs:u32 cut:u32"),
    "n",
    """
    uint from = GROUP * n;
    float most = AS_F32(0xff800000u), lost = 0.0f;
    for (uint i = LANE; i < n; i += WG) {
        float v = LD_y(from + i);
        if ((AS_U32(v) & 0x7fffffffu) > 0x7f800000u || v > 3.4028235e38f) lost = 1.0f;
        else most = max(most, v);
    }
    float top = GROUP_MAX(most), broken = GROUP_MAX(lost);
    bool cuts = broken < 0.5f && LD_p(GROUP) < 1.0f && top >= -3.4028235e38f;
    uint seen = cuts ? n : 0u;
    for (uint i = LANE; i < seen; i += WG) {
        float v = LD_y(from + i);
        ST_lows(from + i, vt_weight(v, top, 0u));
        ST_highs(from + i, vt_weight(v, top, 1u));
    }
    if (LANE == 0u) ST_cut(GROUP, seen);
""",
    helpers=REST + EXP + WEIGHT,
    group=128,
)
# `above`: the sum of what has a larger key than all that `edge` may still stand for.
NUCLEUS = kernel(
    "edge_of_nucleus",
    buffers(reads="y p lows:u32 highs:u32 cut:u32", writes="found:u32"),
    "n",
    """
    uint from = GROUP * n, seen = LD_cut(GROUP), own_low = 0u, own_high = 0u;
    for (uint i = LANE; i < seen; i += WG) {
        uint low = LD_lows(from + i);
        own_low += low;
        own_high += LD_highs(from + i) + (own_low < low ? 1u : 0u);
    }
    tally[LANE] = own_low;
    tally[WG + LANE] = own_high;
    BARRIER();
    uint all_low = 0u, all_high = 0u, above_low = 0u, above_high = 0u, edge = 0u, fixed_bits = 0u;
    for (uint i = 0u; i < WG; i++) {
        all_low += tally[i];
        all_high += tally[WG + i] + (all_low < tally[i] ? 1u : 0u);
    }
    BARRIER();
    uint enough_low = vt_part_of(LD_p(GROUP), all_low, all_high, 0u), enough_high = vt_part_of(LD_p(GROUP), all_low, all_high, 1u);
    if (enough_low == 0u && enough_high == 0u) enough_low = 1u;
    for (uint digit = 0u; digit < 8u; digit++) {
        uint shift = 28u - 4u * digit, sums_low[DIGITS], sums_high[DIGITS];
        for (uint d = 0u; d < DIGITS; d++) { sums_low[d] = 0u; sums_high[d] = 0u; }
        for (uint i = LANE; i < seen; i += WG) {
            uint key = vt_key(LD_y(from + i)), own = (key & fixed_bits) == edge ? (key >> shift) & 15u : DIGITS;
            uint low = LD_lows(from + i), high = LD_highs(from + i);
            for (uint d = 0u; d < DIGITS; d++) {
                uint more = own == d ? low : 0u;
                sums_low[d] += more;
                sums_high[d] += (own == d ? high : 0u) + (sums_low[d] < more ? 1u : 0u);
            }
        }
        for (uint d = 0u; d < DIGITS; d++) {
            tally[d * WG + LANE] = sums_low[d];
            tally[(DIGITS + d) * WG + LANE] = sums_high[d];
        }
        BARRIER();
        uint counted = LANE % DIGITS, sum_low = 0u, sum_high = 0u;
        for (uint i = 0u; i < WG; i++) {
            uint more = tally[counted * WG + i];
            sum_low += more;
            sum_high += tally[(DIGITS + counted) * WG + i] + (sum_low < more ? 1u : 0u);
        }
        if (LANE < DIGITS) {
            totals[LANE] = sum_low;
            totals[DIGITS + LANE] = sum_high;
        }
        BARRIER();
        uint chosen = DIGITS;
        for (uint k = DIGITS; k > 0u; k--) {
            uint low = above_low + totals[k - 1u], high = above_high + totals[DIGITS + k - 1u] + (low < above_low ? 1u : 0u);
            bool reaches = !vt_under(low, high, enough_low, enough_high);
            if (chosen == DIGITS && (k == 1u || reaches)) chosen = k - 1u;
            if (chosen == DIGITS) { above_low = low; above_high = high; }
        }
        edge |= chosen << shift;
        fixed_bits |= 15u << shift;
        BARRIER();
    }
    if (LANE == 0u) {
        ST_found(5u * GROUP, edge);
        ST_found(5u * GROUP + 1u, above_low);
        ST_found(5u * GROUP + 2u, above_high);
        ST_found(5u * GROUP + 3u, enough_low);
        ST_found(5u * GROUP + 4u, enough_high);
    }
""",
    helpers=KEY + SHARE,
    shared=(("tally", "u32", "2u * DIGITS * WG"), ("totals", "u32", "2u * DIGITS")),
    constants=NAN_FIRST | {"DIGITS": DIGITS},
    group=128,
)
# Of those at the edge the first are kept, as many as stand before they reach enough.
CUT = kernel(
    "cut_to_nucleus",
    buffers(reads="lows:u32 highs:u32 cut:u32 found:u32", updates="y"),
    "n",
    """
    uint from = GROUP * n, seen = LD_cut(GROUP), edge = LD_found(5u * GROUP), before = 0u, like = 0u;
    uint part = (seen + WG - 1u) / WG, begin = min(LANE * part, seen), end = min(begin + part, seen);
    for (uint i = begin; i < end; i++) like += vt_key(LD_y(from + i)) == edge ? 1u : 0u;
    counts[LANE] = like;
    BARRIER();
    for (uint i = 0u; i < LANE; i++) before += counts[i];
    for (uint i = begin; i < end; i++) {
        uint key = vt_key(LD_y(from + i)), weight = LD_lows(from + i), add = weight * before;
        uint low = LD_found(5u * GROUP + 1u) + add, high = LD_found(5u * GROUP + 2u) + (low < add ? 1u : 0u);
        high += LD_highs(from + i) * before + vt_high(weight, before);
        bool kept = key > edge || (key == edge && vt_under(low, high, LD_found(5u * GROUP + 3u), LD_found(5u * GROUP + 4u)));
        before += key == edge ? 1u : 0u;
        if (!kept) ST_y(from + i, AS_F32(0xff800000u));
    }
""",
    helpers=KEY + SHARE,
    shared=(("counts", "u32", "WG"),),
    constants=NAN_FIRST,
    group=128,
)


@runs(ops.apply_min_p)
def apply_min_p(device: Device, logits: Tensor, min_p: Tensor) -> Tensor:
    """A group of work items a row."""
    seen, y = rows(device, logits), empty(device, logits.shape)
    device.launch(MIN_P, [seen.tensor, contiguous(device, min_p), y], [seen.width, seen.stride], seen.number if seen.width else 0)
    return y


@runs(ops.apply_top_k_top_p)
def apply_top_k_top_p(device: Device, logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
    """A group of work items a row: first the k best, then of those the best that reach p."""
    seen, y = rows(device, logits), empty(device, logits.shape)
    lows, highs = empty(device, logits.shape, np.uint32), empty(device, logits.shape, np.uint32)
    groups = seen.number if seen.width else 0
    device.launch(TOP_K, [seen.tensor, integers(device, k), y], [seen.width, seen.stride], groups)
    share, cut, found = contiguous(device, p), empty(device, p.shape, np.uint32), empty(device, (seen.number, 5), np.uint32)
    device.launch(WEIGHTS, [y, share, lows, highs, cut], [seen.width], groups)
    device.launch(NUCLEUS, [y, share, lows, highs, cut, found], [seen.width], groups)
    device.launch(CUT, [lows, highs, cut, found, y], [seen.width], groups)
    return y
