"""random_sample: the definition's race, in integers of 64 bits and logarithms of 46, each as two numbers of 32 bits."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import integers, rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.pairs import LOG, REST
from vtcore.providers.kernels.selecting import KEY, NAN_FIRST
from vtcore.tensor import Tensor, empty

PART = 8192  # tokens that one group of work items lets race
# SplitMix64's finaliser (Steele, Lea and Flood, 2014), and -log of the uniform number of a draw's 64 bits
RACE = """
FN uint vt_high(uint a, uint b) {
    uint middle = (a >> 16) * (b & 0xffffu) + (((a & 0xffffu) * (b & 0xffffu)) >> 16), other = (a & 0xffffu) * (b >> 16);
    return (a >> 16) * (b >> 16) + (middle >> 16) + (other >> 16) + (((middle & 0xffffu) + (other & 0xffffu)) >> 16);
}
FN uint vt_mix(uint low, uint high, uint part) {
    uint a = low + 0x7f4a7c15u, b = high + 0x9e3779b9u + (a < low ? 1u : 0u), c = 0u;
    a ^= (a >> 30) | (b << 2);
    b ^= b >> 30;
    c = vt_high(a, 0x1ce4e5b9u) + a * 0xbf58476du + b * 0x1ce4e5b9u;
    a *= 0x1ce4e5b9u;
    b = c;
    a ^= (a >> 27) | (b << 5);
    b ^= b >> 27;
    c = vt_high(a, 0x133111ebu) + a * 0x94d049bbu + b * 0x133111ebu;
    a *= 0x133111ebu;
    b = c;
    a ^= (a >> 31) | (b << 1);
    b ^= b >> 31;
    return part == 0u ? a : b;
}
FN float vt_exponential(uint low, uint high, uint part) {
    uint l = (low >> 12) | (high << 20), h = ((high >> 12) << 1) | (l >> 31);
    l = (l << 1) | 1u;
    float e = -1.0f, unit = 2.220446049250313e-16f;
    for (uint k = 0u; k < 53u && h < 0x100000u; k++) {
        h = (h << 1) | (l >> 31);
        l <<= 1;
        e -= 1.0f;
    }
    if (h > 0x16a09du) {
        h = 0x200000u - h - (l == 0u ? 0u : 1u);
        l = 0u - l;
        e += 1.0f;
        unit = -1.1102230246251565e-16f;
    } else h -= 0x100000u;
    PRECISE float a = F32(h) * 4294967296.0f, b = F32(l >> 16) * 65536.0f, sum = a + b, rest = (b - (sum - a)) + F32(l & 0xffffu);
    PRECISE float f = sum + rest, left = rest - (f - sum);
    return -vt_log_part(f * unit, left * unit, e, part);
}
"""
# Of all work items' `best` and `next` key and `at`: the largest pair of keys, the lowest index on ties.
MEET = """
    bests[LANE] = best;
    nexts[LANE] = next;
    places[LANE] = at;
    BARRIER();
    for (uint k = WG / 2u; k > 0u; k >>= 1) {
        if (LANE < k) {
            uint b = bests[LANE + k], c = nexts[LANE + k], p = places[LANE + k];
            bool like = b == bests[LANE] && c == nexts[LANE];
            if (b > bests[LANE] || (b == bests[LANE] && c > nexts[LANE]) || (like && p < places[LANE])) {
                bests[LANE] = b;
                nexts[LANE] = c;
                places[LANE] = p;
            }
        }
        BARRIER();
    }
"""
SHARED = tuple((name, "u32", "WG") for name in ("bests", "nexts", "places"))
RACE_IN_PARTS = kernel(
    "race_in_parts",
    buffers(reads="probs seeds:i32 steps:i32", writes="tops:u32"),
    "n row parts part words extends",
    f"""
    uint r = GROUP / parts, begin = GROUP % parts * part, end = min(begin + part, n), best = 0u, next = 0u, at = 0xffffffffu;
    uint low = U32(LD_seeds(r * words)), high = words > 1u ? U32(LD_seeds(r * words + words - 1u)) : 0u;
    if (extends > 0u && low >= 0x80000000u) high = 0xffffffffu;
    uint low_1 = vt_mix(low, high, 0u), high_1 = vt_mix(low, high, 1u);
    low = low_1 + U32(LD_steps(r));
    high = high_1 + (low < low_1 ? 1u : 0u);
    uint low_2 = vt_mix(low, high, 0u), high_2 = vt_mix(low, high, 1u);
    for (uint i = begin + LANE; i < end; i += WG) {{
        float p = LD_probs(r * row + i);
        low = low_2 + i;
        high = high_2 + (low < i ? 1u : 0u);
        uint l = vt_mix(low, high, 0u), h = vt_mix(low, high, 1u);
        float q = vt_exponential(l, h, 0u), q_rest = vt_exponential(l, h, 1u);
        PRECISE float ratio = p / q, left = (-vt_rest(ratio, q, p) - ratio * q_rest) / q;
        PRECISE float score = ratio + left, rest = left - (score - ratio);
        if (!(ABS(ratio) < 3.0e38f)) {{ score = ratio; rest = 0.0f; }}
        uint key = vt_key(score), after = vt_key(rest);
        if (key > best || (key == best && after > next) || at == 0xffffffffu) {{ best = key; next = after; at = i; }}
    }}
    {MEET}
    if (LANE == 0u) {{
        ST_tops(3u * GROUP, bests[0]);
        ST_tops(3u * GROUP + 1u, nexts[0]);
        ST_tops(3u * GROUP + 2u, places[0]);
    }}
""",
    helpers=REST + LOG + RACE + KEY,
    shared=SHARED,
    constants=NAN_FIRST,
    group=256,
)
RACE_OF_BEST = kernel(
    "race_of_best",
    buffers(reads="tops:u32", writes="ids:i32"),
    "parts",
    f"""
    uint best = 0u, next = 0u, at = 0xffffffffu;
    for (uint i = LANE; i < parts; i += WG) {{
        uint from = 3u * (GROUP * parts + i), key = LD_tops(from), after = LD_tops(from + 1u);
        if (key > best || (key == best && after > next)) {{ best = key; next = after; at = LD_tops(from + 2u); }}
    }}
    {MEET}
    if (LANE == 0u) ST_ids(GROUP, I32(places[0]));
""",
    shared=SHARED,
)


@runs(ops.random_sample, longs=("seeds",))
def random_sample(device: Device, probs: Tensor, seeds: Tensor, steps: Tensor) -> Tensor:
    """A group of work items for each part of a row; then one for each row over the parts' winners."""
    seen, ids = rows(device, probs), empty(device, probs.shape[:1], np.int32)
    words, parts = _words(device, seeds), -(-seen.width // PART)
    tops = empty(device, (seen.number, parts, 3), np.uint32)
    scalars = [seen.width, seen.stride, parts, PART, words.ndim, int(seeds.dtype == np.int32)]
    device.launch(RACE_IN_PARTS, [seen.tensor, words, integers(device, steps), tops], scalars, seen.number * parts)
    device.launch(RACE_OF_BEST, [tops, ids], [parts], seen.number)
    return ids


def _words(device: Device, seeds: Tensor) -> Tensor:
    """Integers of 64 bits as rows of two of 32; others as they are."""
    if not isinstance(seeds.dtype, np.dtype) or seeds.dtype.itemsize < 8:
        return integers(device, seeds)
    strides = (2 * seeds.strides[0], 1)
    return integers(device, Tensor(seeds.storage, (seeds.shape[0], 2), np.dtype(np.int32), strides, 2 * seeds.offset))
