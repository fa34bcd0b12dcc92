"""The best of a row."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.selecting import KEY, NAN_FIRST
from vtcore.tensor import Tensor, empty

PART = 8192  # values that one group of work items looks through
# of all work items' `best` and `at`: the largest, the lowest index on ties
MEET = """
    keys[LANE] = best;
    places[LANE] = at;
    BARRIER();
    for (uint k = WG / 2u; k > 0u; k >>= 1) {
        if (LANE < k && (keys[LANE + k] > keys[LANE] || (keys[LANE + k] == keys[LANE] && places[LANE + k] < places[LANE]))) {
            keys[LANE] = keys[LANE + k];
            places[LANE] = places[LANE + k];
        }
        BARRIER();
    }
"""
SHARED = (("keys", "u32", "WG"), ("places", "u32", "WG"))
BEST_OF_PARTS = kernel(
    "best_of_parts",
    buffers(reads="x", writes="tops:u32 ids:i32"),
    "n row parts part",
    f"""
    uint from = GROUP / parts * row, begin = GROUP % parts * part, end = min(begin + part, n), best = 0u, at = begin;
    for (uint i = begin + LANE; i < end; i += WG) {{
        uint key = vt_key(LD_x(from + i));
        if (key > best) {{ best = key; at = i; }}
    }}
    {MEET}
    if (LANE == 0u) {{
        ST_tops(GROUP, keys[0]);
        ST_ids(GROUP, I32(places[0]));
    }}
""",
    helpers=KEY,
    shared=SHARED,
    constants=NAN_FIRST,
    group=256,
)
BEST_OF_BEST = kernel(
    "best_of_best",
    buffers(reads="tops:u32 places_of:i32", writes="ids:i32"),
    "parts",
    f"""
    uint from = GROUP * parts, best = 0u, at = 0xffffffffu;
    for (uint i = LANE; i < parts; i += WG) if (LD_tops(from + i) > best) {{ best = LD_tops(from + i); at = U32(LD_places_of(from + i)); }}
    {MEET}
    if (LANE == 0u) ST_ids(GROUP, I32(places[0]));
""",
    shared=SHARED,
)


@runs(ops.argmax)
def argmax(device: Device, x: Tensor) -> Tensor:
    """A group of work items for each part of a row; then one for each row over what they found."""
    seen, ids = rows(device, x), empty(device, x.shape[:-1], np.int32)
    parts = -(-seen.width // PART)
    tops = empty(device, (seen.number, parts), np.uint32)
    places = ids if parts == 1 else empty(device, (seen.number, parts), np.int32)
    device.launch(BEST_OF_PARTS, [seen.tensor, tops, places], [seen.width, seen.stride, parts, PART], seen.number * parts)
    if parts > 1:
        device.launch(BEST_OF_BEST, [tops, places, ids], [parts], seen.number)
    return ids
