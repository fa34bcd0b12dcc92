"""Rows taken from a table, and rows put in their place."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.parts import ROWS, parts
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import integers
from vtcore.providers.gpu.views import rows as rows_of
from vtcore.providers.kernels.blocks import FORMS, value
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.providers.kernels.ops.linear import kind_of, patterns_of, seen_matrix, unreadable
from vtcore.providers.kernels.products import begin_of
from vtcore.tensor import Tensor, empty

EMBEDDING = kernel(
    "embedding",
    buffers(reads="w:f32|f16|bf16 ids:i32", writes="y"),
    "total n k begin count w_stride",
    """
    if (INDEX < total) {
        uint row = min(U32(LD_ids(INDEX / k)), n - 1u) - begin;
        if (row < count) ST_y(INDEX, LD_w(row * w_stride + INDEX % k));
    }
""",
)


def _blocks_kernel(name: str) -> Kernel:
    """The kernel for a quantised table: a work item reads 16 values."""
    form = FORMS[name]
    text, chunk = form.text()
    stores = "\n".join(f"ST_y(INDEX * 16u + {j}u, {value(chunk, j)});" for j in range(16))
    place = begin_of(form.fmt, "line", "INDEX % (k / 16u) * 16u")
    return kernel(
        f"embedding_{name.lower()}",
        buffers(reads=f"w:bytes ids:i32 {'grid:bytes' if form.grid else ''}", writes="y"),
        "total n k begin count w_stride",
        f"""
    if (INDEX < total) {{
        uint row = min(U32(LD_ids(INDEX / (k / 16u))), n - 1u) - begin;
        if (row < count) {{
            uint line = row * w_stride;
            {place}
            {text}
            {stores}
        }}
    }}
""",
        helpers=form.helpers,
    )


EMBEDDINGS = {name: _blocks_kernel(name) for name in FORMS}
LOOK_UP = kernel(
    "look_up",
    buffers(reads="w:i32 ids:i32", writes="y:i32"),
    "total n k w_stride w_step step",
    """
    if (INDEX < total) ST_y(INDEX, LD_w(min(U32(LD_ids(INDEX / k * step)), n - 1u) * w_stride + INDEX % k * w_step));
""",
)
PLACE = kernel(
    "place",
    buffers(reads="x rows:i32 values", writes="y"),
    "n k x_stride v_stride step adds",
    """
    for (uint i = LANE; i < k; i += WG) ST_y(GROUP * k + i, LD_x(GROUP * x_stride + i));
    for (uint r = 0u; r < n; r++) {
        if (LD_rows(r * step) == I32(GROUP)) {
            for (uint i = LANE; i < k; i += WG) {
                float value = LD_values(r * v_stride + i);
                if (adds > 0u) value = LD_y(GROUP * k + i) + value;
                ST_y(GROUP * k + i, value);
            }
        }
    }
""",
)


def _embedding_declines(device: Device, table: Tensor, ids: Tensor) -> str | None:
    return unreadable("table", table)


@runs(ops.embedding, declines=_embedding_declines, parts={"table": ROWS})
def embedding(device: Device, table: Tensor, ids: Tensor) -> Tensor:
    """A work item for each value, of a quantised table for 16 of them; each part of a table gives the rows that are its own."""
    n, k = table.shape
    y, kind, ids = empty(device, (*ids.shape, k)), kind_of(table), integers(device, ids)
    chosen, each = (EMBEDDING, 1) if kind == "dense" else (EMBEDDINGS[kind], 16)
    for part, _, first in parts(device, table, ROWS):
        seen, stride = seen_matrix(device, part)
        device.each(chosen, [seen, ids, *patterns_of(device, kind), y], [n, k, first, part.shape[0], stride], y.size // each)
    return y


@runs(ops.look_up)
def look_up(device: Device, table: Tensor, ids: Tensor) -> Tensor:
    """A work item for each number."""
    n, k = table.shape
    y = empty(device, (*ids.shape, k), np.int32)
    device.each(LOOK_UP, [table, ids, y], [n, k, *table.strides, ids.strides[0]], y.size)
    return y


@runs(ops.place)
def place(device: Device, x: Tensor, rows: Tensor, values: Tensor, add: bool) -> Tensor:
    """A group of work items for each row of x, which looks through all numbers."""
    y, seen, given = empty(device, x.shape), rows_of(device, x), rows_of(device, values)
    scalars = [given.number, seen.width, seen.stride, given.stride, rows.strides[0], int(add)]
    device.launch(PLACE, [seen.tensor, rows, given.tensor, y], scalars, seen.number if seen.width else 0)
    return y
