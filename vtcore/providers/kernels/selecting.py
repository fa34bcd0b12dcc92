"""Of rows of unsigned keys the k largest, the lowest index first among equals.

A long row's k-th largest key is found digit by digit, four bits at a time, by a group of work items that counts; then those above it
and the first of those like it are put down. What is left is ranked: a work item each counts what stands before it."""

from __future__ import annotations

import numpy as np

from vtcore.providers.gpu.device import Device
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

SHORT = 1024  # keys of a row that are ranked without choosing before
DIGITS = 16
# floats as keys of the same order, zeros of both signs equal, NaN at LOST; nothing has the key 0
KEY = """
FN uint vt_key(float v) {
    uint bits = AS_U32(v), size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return LOST;
    if (size == 0u) return 0x80000000u;
    return bits > size ? 0xffffffffu - bits : bits | 0x80000000u;
}
"""
NAN_LAST, NAN_FIRST = {"LOST": 1}, {"LOST": 0xFFFFFFFF}
# The key of the `left`-th largest of n keys: `edge`; of those like it `left` are among the largest.
EDGE = """
    uint edge = 0u, fixed_bits = 0u;
    for (uint digit = 0u; digit < 8u; digit++) {
        uint shift = 28u - 4u * digit, counts[DIGITS];
        for (uint d = 0u; d < DIGITS; d++) counts[d] = 0u;
        for (uint i = LANE; i < n; i += WG) {
            uint key = KEY_AT(i), own = (key & fixed_bits) == edge ? (key >> shift) & 15u : DIGITS;
            for (uint d = 0u; d < DIGITS; d++) counts[d] += own == d ? 1u : 0u;
        }
        for (uint d = 0u; d < DIGITS; d++) tally[d * WG + LANE] = counts[d];
        BARRIER();
        uint sum = 0u;
        for (uint i = 0u; i < WG; i++) sum += tally[LANE % DIGITS * WG + i];
        if (LANE < DIGITS) totals[LANE] = sum;
        BARRIER();
        uint chosen = DIGITS - 1u;
        while (chosen > 0u && left > totals[chosen]) {
            left -= totals[chosen];
            chosen -= 1u;
        }
        edge |= chosen << shift;
        fixed_bits |= 15u << shift;
        BARRIER();
    }
"""
EDGE_SHARED = (("tally", "u32", "DIGITS * WG"), ("totals", "u32", "DIGITS"))
CHOOSE = kernel(
    "choose_keys",
    buffers(reads="keys:u32", writes="best:u32 places:i32"),
    "n k",
    f"""
    uint from = GROUP * n, left = k;
    {EDGE.replace("KEY_AT(i)", "LD_keys(from + i)")}
    uint part = (n + WG - 1u) / WG, begin = min(LANE * part, n), end = min(begin + part, n), above = 0u, like = 0u;
    for (uint i = begin; i < end; i++) {{
        above += LD_keys(from + i) > edge ? 1u : 0u;
        like += LD_keys(from + i) == edge ? 1u : 0u;
    }}
    tally[LANE] = above;
    tally[WG + LANE] = like;
    BARRIER();
    uint place = 0u, alike = 0u;
    for (uint i = 0u; i < LANE; i++) {{
        place += tally[i];
        alike += tally[WG + i];
    }}
    place += min(alike, left);
    for (uint i = begin; i < end; i++) {{
        uint key = LD_keys(from + i);
        bool fits = key > edge || (key == edge && alike < left);
        if (key == edge) alike += 1u;
        if (fits) {{
            ST_best(GROUP * k + place, key);
            ST_places(GROUP * k + place, I32(i));
            place += 1u;
        }}
    }}
""",
    shared=EDGE_SHARED,
    constants={"DIGITS": DIGITS},
    group=256,
)
RANK = kernel(
    "rank_keys",
    buffers(reads="keys:u32 places:i32", writes="ids:i32"),
    "total n k chosen",
    """
    if (INDEX < total) {
        uint from = INDEX / n * n, own = INDEX % n, key = LD_keys(INDEX), rank = 0u;
        for (uint i = 0u; i < n; i++) {
            uint other = LD_keys(from + i);
            rank += other > key || (other == key && i < own) ? 1u : 0u;
        }
        int id = I32(own);
        if (chosen > 0u) id = LD_places(INDEX);
        if (rank < k) ST_ids(INDEX / n * k + rank, key == 0u ? -1 : id);
    }
""",
)


def best_keys(device: Device, keys: Tensor, k: int) -> Tensor:
    """Indices of the k largest of each row of keys uint32 [R n], the largest first: int32 [R k]. -1 for a key of 0. k is at most n."""
    (number, n), ids = keys.shape, empty(device, (keys.shape[0], k), np.int32)
    places = ids
    if n > SHORT:
        best, places = empty(device, (number, k), np.uint32), empty(device, (number, k), np.int32)
        device.launch(CHOOSE, [keys, best, places], [n, k], number)
        keys = best
    device.each(RANK, [keys, places, ids], [max(keys.shape[1], 1), k, int(n > SHORT)], keys.size)
    return ids
