"""Probabilities, and their logarithms: a group of work items a row."""

from __future__ import annotations

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import rows
from vtcore.providers.kernels.declare import Kernel, buffers, kernel
from vtcore.tensor import Tensor, empty

# `top` is what a row's exponentials are relative to, `total` their sum
TOTAL = """
    uint from = GROUP * row, to = GROUP * n;
    float most = AS_F32(0xff800000u), sum = 0.0f;
    for (uint i = LANE; i < n; i += WG) most = max(most, LD_x(from + i));
    float top = GROUP_MAX(most);
    if (AS_U32(top) == 0xff800000u) top = 0.0f;
    for (uint i = LANE; i < n; i += WG) sum += exp(LD_x(from + i) - top);
    float total = GROUP_SUM(sum);
    if (total == 0.0f) total = 1.0f;
"""
SOFTMAX = kernel(
    "softmax",
    buffers(reads="x", writes="y"),
    "n row",
    TOTAL + "    for (uint i = LANE; i < n; i += WG) ST_y(to + i, exp(LD_x(from + i) - top) / total);\n",
    group=256,
)
LOG_SOFTMAX = kernel(
    "log_softmax",
    buffers(reads="x", writes="y"),
    "n row",
    TOTAL + "    float less = log(total);\n    for (uint i = LANE; i < n; i += WG) ST_y(to + i, LD_x(from + i) - top - less);\n",
    group=256,
)


def _by_rows(device: Device, wanted: Kernel, x: Tensor) -> Tensor:
    seen, y = rows(device, x), empty(device, x.shape)
    device.launch(wanted, [seen.tensor, y], [seen.width, seen.stride], seen.number if seen.width else 0)
    return y


@runs(ops.softmax)
def softmax(device: Device, x: Tensor) -> Tensor:
    """A group of work items a row."""
    return _by_rows(device, SOFTMAX, x)


@runs(ops.log_softmax)
def log_softmax(device: Device, x: Tensor) -> Tensor:
    """A group of work items a row."""
    return _by_rows(device, LOG_SOFTMAX, x)
