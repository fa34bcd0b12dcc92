"""Normalisation over the last axis: a group of work items a row, or a part of one."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device, dtype_name
from vtcore.providers.gpu.pointwise import FLOATS
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous, rows
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

RMS_NORM = kernel(
    "rms_norm",
    buffers(reads=f"x weight:{FLOATS}", writes="y"),
    "n row parts weighted eps:f32 offset:f32",
    """
    uint from = GROUP / parts * row + GROUP % parts * n, to = GROUP * n, column = GROUP % parts * n;
    float s = 0.0f;
    for (uint i = LANE; i < n; i += WG) s = FMA(LD_x(from + i), LD_x(from + i), s);
    float r = 1.0f / sqrt(GROUP_SUM(s) / F32(n) + eps);
    for (uint i = LANE; i < n; i += WG) {
        float factor = 1.0f;
        if (weighted > 0u) factor = offset + LD_weight(column + i);
        ST_y(to + i, LD_x(from + i) * r * factor);
    }
""",
    group=256,
)


@runs(ops.rms_norm)
def rms_norm(device: Device, x: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int) -> Tensor:
    """A group of work items for each of the parts of a row."""
    seen, y = rows(device, x), empty(device, x.shape)
    w = seen.tensor if weight is None else plain(device, weight)
    scalars = [seen.width // groups, seen.stride, groups, int(weight is not None), eps, offset]
    device.launch(RMS_NORM, [seen.tensor, w, y], scalars, seen.number * groups if seen.width else 0)
    return y


ADD_RMS_NORM = kernel(
    "add_rms_norm",
    buffers(reads=f"x residual weight:{FLOATS}", updates="total", writes="y"),
    "n row other parts weighted eps:f32 offset:f32",
    """
    uint line = GROUP / parts, column = GROUP % parts * n, to = GROUP * n;
    float s = 0.0f;
    for (uint i = LANE; i < n; i += WG) {
        float v = LD_x(line * row + column + i) + LD_residual(line * other + column + i);
        ST_total(to + i, v);
        s = FMA(v, v, s);
    }
    float r = 1.0f / sqrt(GROUP_SUM(s) / F32(n) + eps);
    for (uint i = LANE; i < n; i += WG) {
        float factor = 1.0f;
        if (weighted > 0u) factor = offset + LD_weight(column + i);
        ST_y(to + i, LD_total(to + i) * r * factor);
    }
""",
    group=256,
)


@runs(ops.add_rms_norm)
def add_rms_norm(
    device: Device, x: Tensor, residual: Tensor, weight: Tensor | None, eps: float, offset: float, groups: int
) -> tuple[Tensor, Tensor]:
    """As `rms_norm`; each work item reads of the sum what it wrote itself."""
    one, other = rows(device, x), rows(device, residual)
    y, total = empty(device, x.shape), empty(device, x.shape)
    w = one.tensor if weight is None else plain(device, weight)
    scalars = [one.width // groups, one.stride, other.stride, groups, int(weight is not None), eps, offset]
    device.launch(ADD_RMS_NORM, [one.tensor, other.tensor, w, total, y], scalars, one.number * groups if one.width else 0)
    return y, total


LAYER_NORM = kernel(
    "layer_norm",
    buffers(reads=f"x weight:{FLOATS} bias:{FLOATS}", writes="y"),
    "n row weighted biased eps:f32",
    """
    uint from = GROUP * row, to = GROUP * n;
    float s = 0.0f, near = 0.0f, squares = 0.0f;
    for (uint i = LANE; i < n; i += WG) s += LD_x(from + i);
    float mean = GROUP_SUM(s) / F32(n);
    for (uint i = LANE; i < n; i += WG) {
        float d = LD_x(from + i) - mean;
        near += d;
        squares = FMA(d, d, squares);
    }
    near = GROUP_SUM(near) / F32(n);
    float r = 1.0f / sqrt(max(GROUP_SUM(squares) / F32(n) - near * near, 0.0f) + eps);
    for (uint i = LANE; i < n; i += WG) {
        float v = (LD_x(from + i) - mean - near) * r;
        if (weighted > 0u) v = v * LD_weight(i);
        if (biased > 0u) v = v + LD_bias(i);
        ST_y(to + i, v);
    }
""",
    group=256,
)


@runs(ops.layer_norm)
def layer_norm(device: Device, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """What a first mean in float32 is off by (`near`) is added to it, and taken from the squares."""
    seen, y = rows(device, x), empty(device, x.shape)
    w, b = (seen.tensor if t is None else plain(device, t) for t in (weight, bias))
    scalars = [seen.width, seen.stride, int(weight is not None), int(bias is not None), eps]
    device.launch(LAYER_NORM, [seen.tensor, w, b, y], scalars, seen.number if seen.width else 0)
    return y


L2_NORM = kernel(
    "l2_norm",
    buffers(reads="x", writes="y"),
    "n row eps:f32",
    """
    uint from = GROUP * row, to = GROUP * n;
    float s = 0.0f;
    for (uint i = LANE; i < n; i += WG) s = FMA(LD_x(from + i), LD_x(from + i), s);
    float r = 1.0f / sqrt(GROUP_SUM(s) + eps);
    for (uint i = LANE; i < n; i += WG) ST_y(to + i, LD_x(from + i) * r);
""",
)


@runs(ops.l2_norm)
def l2_norm(device: Device, x: Tensor, eps: float) -> Tensor:
    """A group of work items a row."""
    seen, y = rows(device, x), empty(device, x.shape)
    device.launch(L2_NORM, [seen.tensor, y], [seen.width, seen.stride, eps], seen.number if seen.width else 0)
    return y


def plain(device: Device, t: Tensor) -> Tensor:
    """A vector as the kernels read it: itself where it is contiguous, in whatever float it is."""
    return t if t.contiguous and dtype_name(t) in FLOATS.split("|") else contiguous(device, t)
