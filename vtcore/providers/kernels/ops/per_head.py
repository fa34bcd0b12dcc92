"""Products with a matrix for each head: a work item a result."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device, is_float32
from vtcore.providers.gpu.parts import HEADS, parts
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import contiguous
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

PER_HEAD = kernel(
    "per_head",
    buffers(reads="x w:f32|f16|bf16", writes="y"),
    "total heads a b x_token x_head x_step w_head w_row w_column y_token y_head",
    """
    if (INDEX < total) {
        uint column = INDEX % b, head = INDEX / b % heads, token = INDEX / b / heads;
        uint from = token * x_token + head * x_head, at = head * w_head + column * w_column, i = 0u;
        float p = 0.0f, q = 0.0f, s = 0.0f, t = 0.0f;
        for (; i + 3u < a; i += 4u) {
            p = FMA(LD_x(from + i * x_step), LD_w(at + i * w_row), p);
            q = FMA(LD_x(from + (i + 1u) * x_step), LD_w(at + (i + 1u) * w_row), q);
            s = FMA(LD_x(from + (i + 2u) * x_step), LD_w(at + (i + 2u) * w_row), s);
            t = FMA(LD_x(from + (i + 3u) * x_step), LD_w(at + (i + 3u) * w_row), t);
        }
        for (; i < a; i++) p = FMA(LD_x(from + i * x_step), LD_w(at + i * w_row), p);
        ST_y(token * y_token + head * y_head + column, (p + q) + (s + t));
    }
""",
)


@runs(ops.per_head, parts={"weight": HEADS})
def per_head(device: Device, x: Tensor, weight: Tensor) -> Tensor:
    """Neighbouring work items read neighbouring columns of a head's matrix; a launch for each part of the weight."""
    x = x if is_float32(x) else contiguous(device, x)
    y = empty(device, (x.shape[0], weight.shape[0], weight.shape[2]))
    for part, head, column in parts(device, weight, HEADS):
        heads, a, b = part.shape
        mine, into = x[:, head : head + heads], y[:, head : head + heads, column : column + b]
        device.each(PER_HEAD, [mine, part, into], [heads, a, b, *x.strides, *part.strides, *y.strides[:2]], into.size)
    return y
