"""The k best of a row."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.providers.kernels.selecting import KEY, NAN_LAST, best_keys
from vtcore.tensor import Tensor, empty

KEYS = kernel(
    "keys_of_floats",
    buffers(reads="x", writes="keys:u32"),
    "total n row",
    "    if (INDEX < total) ST_keys(INDEX, vt_key(LD_x(INDEX / n * row + INDEX % n)));\n",
    helpers=KEY,
    constants=NAN_LAST,
)
PICK = kernel(
    "pick",
    buffers(reads="x ids:i32", writes="y"),
    "total k row",
    "    if (INDEX < total) ST_y(INDEX, LD_x(INDEX / k * row + U32(LD_ids(INDEX))));\n",
)


@runs(ops.top_k)
def top_k(device: Device, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Keys of the same order are chosen from and ranked; then the values of what was found are read."""
    seen, keys = rows(device, x), empty(device, (x.size // x.shape[-1], x.shape[-1]), np.uint32)
    device.each(KEYS, [seen.tensor, keys], [seen.width, seen.stride], keys.size)
    ids, values = best_keys(device, keys, k), empty(device, (*x.shape[:-1], k))
    device.each(PICK, [seen.tensor, ids, values], [k, seen.stride], values.size)
    return values, ids.reshape(values.shape)
