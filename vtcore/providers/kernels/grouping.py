"""Rows sorted by the matrix that each meets, in tiles whose rows meet one: found on the device, so that a recorded step finds it anew.

A tile is a matrix's number and the numbers of its rows, -1 where there is none. How many tiles there are depends on the numbers; the list
has room for all that there could be, and the rest of it is tiles of no matrix. What a row gives doesn't depend on where it stands."""

from __future__ import annotations

import numpy as np

from vtcore.providers.gpu.device import Device
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

MOST = 1 << 24  # rows that are counted exactly in float32

COUNT = kernel(
    "count_rows",
    buffers(reads="ids:i32", writes="counts:i32"),
    "rows matrices",
    """
    float found = 0.0f;
    for (uint i = LANE; i < rows; i += WG) found += min(U32(LD_ids(i)), matrices - 1u) == GROUP ? 1.0f : 0.0f;
    found = GROUP_SUM(found);
    if (LANE == 0u) ST_counts(GROUP, I32(found));
""",
    group=128,
)
# A group lists the tiles of its matrix, and the last one also those of none. A lane's rows stand behind those of the lanes before it.
LIST = kernel(
    "list_tiles",
    buffers(reads="ids:i32 counts:i32", writes="tiles:i32"),
    "rows matrices size places",
    """
    uint mine = 0u, rank = 0u, count = U32(LD_counts(GROUP));
    float before = 0.0f;
    for (uint e = LANE; e < GROUP; e += WG) before += F32((U32(LD_counts(e)) + size - 1u) / size);
    uint first = U32(GROUP_SUM(before)), used = (count + size - 1u) / size, line = size + 1u;
    for (uint i = LANE; i < rows; i += WG) mine += min(U32(LD_ids(i)), matrices - 1u) == GROUP ? 1u : 0u;
    found[LANE] = mine;
    BARRIER();
    for (uint l = 0u; l < WG; l++) rank += l < LANE ? found[l] : 0u;
    for (uint i = LANE; i < rows; i += WG) {
        if (min(U32(LD_ids(i)), matrices - 1u) == GROUP) {
            ST_tiles((first + rank / size) * line + 1u + rank % size, I32(i));
            rank += 1u;
        }
    }
    for (uint i = LANE; i < used; i += WG) ST_tiles((first + i) * line, I32(GROUP));
    for (uint i = count + LANE; i < used * size; i += WG) ST_tiles((first + i / size) * line + 1u + i % size, -1);
    uint rest = GROUP + 1u == matrices ? (places - first - used) * line : 0u;
    for (uint i = LANE; i < rest; i += WG) ST_tiles((first + used) * line + i, -1);
""",
    shared=(("found", "u32", "WG"),),
    group=128,
)


def tiles(device: Device, ids: Tensor, matrices: int, size: int) -> Tensor:
    """int32 [tiles, 1 + size] of the rows whose matrices have these numbers, int32 and contiguous: fewer than MOST rows."""
    places = ids.size // size + min(ids.size, matrices)  # each matrix that is asked for leaves at most one tile with room
    counts, listed = empty(device, (matrices,), np.int32), empty(device, (places, 1 + size), np.int32)
    device.launch(COUNT, [ids, counts], [ids.size, matrices], matrices)
    device.launch(LIST, [ids, counts, listed], [ids.size, matrices, size, places], matrices)
    return listed
