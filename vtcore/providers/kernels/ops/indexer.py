"""Which entries each token looks at: scores as keys, then the k largest of each token's."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, entries, integers
from vtcore.providers.kernels.attending import REQUEST
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.selecting import KEY, NAN_LAST, best_keys
from vtcore.tensor import Tensor, empty

AT_ONCE = 1 << 24  # keys of as many tokens as are made before the next tokens' turn
# A group of work items for a run of WG entries of a token, whose own rows are those from `skipped` on. No entry has the key 0.
SCORES = kernel(
    "scores_of_entries",
    buffers(reads="q weights table:i32 starts:i32 lengths:i32 held:f32|f16|bf16", writes="keys:u32"),
    "heads requests skipped parts width row room size table_row k_page k_entry k_channel every scale:f32",
    REQUEST.replace("GROUP / heads", "GROUP / parts + skipped").replace("GROUP % heads", "GROUP % parts")
    + """
    uint entry = h * WG + LANE, ready = 0u, key = 0u;
    if (owned) ready = (U32(LD_lengths(r)) + t + 1u - U32(LD_starts(r + 1u))) / every;
    if (entry < ready) {
        uint from = U32(LD_table(r * table_row + entry / size)) * k_page + entry % size * k_entry;
        float sum = 0.0f;
        for (uint head = 0u; head < heads; head++) {
            uint q = t * row + head * width;
            float score = 0.0f;
            for (uint i = 0u; i < width; i++) score = FMA(LD_q(q + i), LD_held(from + i * k_channel), score);
            score *= scale;
            sum = FMA(score < 0.0f ? 0.0f : score, LD_weights(t * heads + head), sum);
        }
        key = vt_key(sum);
    }
    if (entry < room) ST_keys((t - skipped) * room + entry, key);
""",
    helpers=KEY,
    constants=NAN_LAST,
)
PUT = kernel(
    "put_choice",
    buffers(reads="ids:i32", writes="y:i32"),
    "total n k",
    """
    if (INDEX < total) {
        int id = -1;
        if (INDEX % k < n) id = LD_ids(INDEX / k * n + INDEX % k);
        ST_y(INDEX, id);
    }
""",
)


@runs(ops.choose_entries)
def choose_entries(
    device: Device,
    q: Tensor,
    weights: Tensor,
    keys: Tensor,
    table: Tensor,
    starts: Tensor,
    lengths: Tensor,
    k: int,
    every: int,
    scale: float,
) -> Tensor:
    """As many tokens at a time as keys have room."""
    out, room = empty(device, (q.shape[0], k), np.int32), max(table.shape[1] * keys.shape[1], 1)
    (seen, row), share = entries(device, q), contiguous(device, weights)
    tables = [integers(device, x) for x in (table, starts, lengths)]
    parts, step = -(-room // SCORES.group), max(1, AT_ONCE // room)
    scalars = [parts, q.shape[2], row, room, keys.shape[1], table.shape[1], *keys.strides, every, scale]
    for begin in range(0, q.shape[0], step):
        made = empty(device, (min(step, q.shape[0] - begin), room), np.uint32)
        numbers = [q.shape[1], table.shape[0], begin, *scalars]
        device.launch(SCORES, [seen, share, *tables, keys, made], numbers, made.shape[0] * parts)
        _put(device, best_keys(device, made, min(k, room)), out[begin : begin + made.shape[0]])
    return out


def _put(device: Device, ids: Tensor, out: Tensor) -> None:
    device.each(PUT, [ids, out], [ids.shape[1], out.shape[1]], out.size)
