"""Normalisation over the last axis: a group of work items a row."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

RMS_NORM = kernel(
    "rms_norm",
    buffers(reads="x weight:f32|f16|bf16", writes="y"),
    "n row parts weighted eps:f32 offset:f32",
    """
    uint from = GROUP / parts * row + GROUP % parts * n, to = GROUP * n, column = GROUP % parts * n;
    float s = 0.0f;
    for (uint i = LANE; i < n; i += WG) s = FMA(LD_x(from + i), LD_x(from + i), s);
    float r = 1.0f / sqrt(GROUP_SUM(s) / F32(n) + eps);
    for (uint i = LANE; i < n; i += WG) {
        float factor = offset;
        if (weighted > 0u) factor = offset + LD_weight(column + i);
        else factor = 1.0f;
        ST_y(to + i, LD_x(from + i) * r * factor);
    }
""",
)


@runs(ops.rms_norm)
def rms_norm(device: Device, x: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> Tensor:
    """A group of work items for each of the parts of a row."""
    seen, y = rows(device, x), empty(device, x.shape)
    w = seen.tensor if weight is None else contiguous(device, weight)
    scalars = [seen.width // groups, seen.stride, groups, int(weight is not None), eps, offset]
    device.launch(RMS_NORM, [seen.tensor, w, y], scalars, seen.number * groups if seen.width else 0)
    return y
