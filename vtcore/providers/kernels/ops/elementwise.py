"""Sums, products and caps, value by value, and two arrays side by side."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.pointwise import FLOATS, formula, joined
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import broadcast, strides_in
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

formula(ops.add, "x + y", y=FLOATS)
formula(ops.mul, "x * y", y=FLOATS)
formula(ops.sigmoid_mul, "x * fn_sigmoid(gate)")
formula(ops.scale, "x * factor")
formula(ops.softcap, "cap * fn_tanh(x / cap)")
formula(ops.clamp, "fn_within(x, limit)")

AXES = 3  # of rows
CONCAT = kernel(
    "concat",
    buffers(reads="x y", writes="z"),
    "total x_width width n1 n2 x0 x1 x2 x3 y0 y1 y2 y3",
    """
    if (INDEX < total) {
        uint column = INDEX % width, i = INDEX / width, k = i % n2, j = i / n2 % n1;
        i = i / n2 / n1;
        float v = 0.0f;
        if (column < x_width) v = LD_x(i * x0 + j * x1 + k * x2 + column * x3);
        else v = LD_y(i * y0 + j * y1 + k * y2 + (column - x_width) * y3);
        ST_z(INDEX, v);
    }
""",
)


@runs(ops.concat)
def concat(device: Device, x: Tensor, y: Tensor) -> Tensor:
    """A work item a value."""
    lead = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    parts = [t if t.dtype == np.float32 else broadcast(device, t, t.shape) for t in (x, y)]
    sizes, steps = joined(lead, *(strides_in(_ahead(t), lead) for t in parts))
    if len(sizes) > AXES:
        parts = [broadcast(device, t, (*lead, t.shape[-1])) for t in parts]
        sizes, steps = [int(np.prod(lead))], [[t.shape[-1]] for t in parts]
    z, ahead = empty(device, (*lead, x.shape[-1] + y.shape[-1])), AXES - len(sizes)
    walks = [n & 0xFFFFFFFF for s, t in zip(steps, parts, strict=True) for n in ([0] * ahead + s + [t.strides[-1]])]
    device.each(CONCAT, [*parts, z], [x.shape[-1], z.shape[-1], *([1] * ahead + sizes)[1:], *walks], z.size)
    return z


def _ahead(t: Tensor) -> Tensor:
    """The first column: what is left of a tensor's shape and strides without the last axis."""
    return Tensor(t.storage, t.shape[:-1], t.dtype, t.strides[:-1], t.offset)
