"""What says how much passes: a sigmoid, a state's time step, and a bar that few values of a row are over."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.pointwise import FLOATS, formula, pointwise
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import rows
from vtcore.providers.kernels import maths
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

formula(ops.sigmoid, "fn_sigmoid(x)")
STEP = "fn_softplus(biased > 0u ? x + bias : x)"
TIME_STEP = pointwise("time_step", f"({STEP} < low ? low : fn_at_most({STEP}, high))", f"x bias:{FLOATS}", "low high biased:u32")


@runs(ops.time_step)
def time_step(device: Device, x: Tensor, bias: Tensor | None, low: float, high: float) -> Tensor:
    """A work item a value."""
    return TIME_STEP(device, [x, x if bias is None else bias], [low, high, int(bias is not None)])


OVER_BAR = kernel(
    "over_bar",
    buffers(reads="x", writes="y"),
    "n row deviations:f32",
    """
    uint from = GROUP * row, to = GROUP * n;
    float top = 0.0f, sum = 0.0f, near = 0.0f, squares = 0.0f;
    for (uint i = LANE; i < n; i += WG) top = max(top, ABS(LD_x(from + i)));
    top = GROUP_MAX(top);
    float unit = top < 1e-14f ? 7.922816251426434e28f : (top > 1e14f ? 1.262177448353619e-29f : 1.0f);
    for (uint i = LANE; i < n; i += WG) sum += LD_x(from + i) * unit;
    float mean = GROUP_SUM(sum) / F32(n);
    for (uint i = LANE; i < n; i += WG) {
        float d = LD_x(from + i) * unit - mean;
        near += d;
        squares = FMA(d, d, squares);
    }
    near = GROUP_SUM(near) / F32(n);
    float deviation = sqrt(max(GROUP_SUM(squares) / F32(n) - near * near, 0.0f));
    float bar = mean + near + deviations * deviation;
    for (uint i = LANE; i < n; i += WG) ST_y(to + i, fn_relu(LD_x(from + i) * unit - bar) / unit);
""",
    helpers=maths.text("fn_relu("),
    group=256,
)


@runs(ops.over_bar)
def over_bar(device: Device, x: Tensor, deviations: float) -> Tensor:
    """A group of work items a row. Rows of tiny or huge values are brought to where squares are floats, by a power of two."""
    seen, y = rows(device, x), empty(device, x.shape)
    device.launch(OVER_BAR, [seen.tensor, y], [seen.width, seen.stride, deviations], seen.number if seen.width else 0)
    return y
