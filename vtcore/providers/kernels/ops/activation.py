"""Activations, and the gated ones: a line each."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.pointwise import formula
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous
from vtcore.providers.kernels import maths
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

formula(ops.silu, "fn_silu(x)")
formula(ops.gelu, "fn_gelu(x)")
formula(ops.gelu_tanh, "fn_gelu_tanh(x)")
formula(ops.quick_gelu, "fn_quick_gelu(x)")
formula(ops.relu, "fn_relu(x)")
formula(ops.relu_squared, "fn_relu(x) * fn_relu(x)")
formula(ops.softplus, "fn_softplus(x)")
formula(ops.silu_mul, "fn_silu(fn_at_most(gate, limit)) * fn_within(up, limit)")
formula(ops.gelu_mul, "fn_gelu_tanh(gate) * up")
formula(ops.gelu_erf_mul, "fn_gelu(gate) * up")
formula(ops.quick_gelu_mul, "fn_quick_gelu(gate) * up")
formula(
    ops.swiglu_oai,
    "fn_at_most(gate, limit) * fn_sigmoid(alpha * fn_at_most(gate, limit)) * (fn_within(up, limit) + 1.0f)",
)
formula(
    ops.situ_mul,
    "alpha * fn_tanh(gate / alpha) * fn_sigmoid(gate) * (limit > 3e38f ? up : limit * fn_tanh(up / limit))",
)

BENT = "FMA(c, x, x > 0.0f ? a * x * x : (c + b) * (x > e ? fn_exp_rest(e) + (e - x) : fn_exp_rest(x)))"
XIELU = kernel(
    "xielu",
    buffers(reads="x rise fall slope eps", writes="y"),
    "total",
    f"""
    if (INDEX < total) {{
        float x = LD_x(INDEX), a = LD_rise(0u), b = LD_fall(0u), c = LD_slope(0u), e = LD_eps(0u);
        ST_y(INDEX, {BENT});
    }}
""",
    helpers=maths.text(BENT),
)


@runs(ops.xielu)
def xielu(device: Device, x: Tensor, rise: Tensor, fall: Tensor, slope: Tensor, eps: Tensor) -> Tensor:
    """A work item a value."""
    y = empty(device, x.shape)
    device.each(XIELU, [*(contiguous(device, t) for t in (x, rise, fall, slope, eps)), y], [], y.size)
    return y
