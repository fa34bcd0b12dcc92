"""Products with a weight [N K]: one row of outputs at a time for few rows, tiles of eight rows for many. Both add in the same order."""

from __future__ import annotations

from functools import cache

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import Rows, contiguous, rows
from vtcore.providers.kernels.blocks import FORMS
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.products import GROUP, LANES, OUTPUTS, WEIGHTS, product_kernel
from vtcore.quant.blocks import BlockFormat
from vtcore.quant.iq import grid
from vtcore.tensor import Tensor, empty, of

MANY = 8  # rows of a tile
FEW = 3  # rows from which a tile is worth it
WIDE = GROUP // LANES * OUTPUTS  # outputs of a group


@cache
def matrix_kernel(kind: str, tile: int) -> Kernel:
    """The kernel for a kind of weight (a block format's name, or dense) and tiles of so many rows."""
    return product_kernel(WEIGHTS[kind], tile)


def kind_of(weight: Tensor) -> str:
    """A weight's kind."""
    return weight.dtype.name if isinstance(weight.dtype, BlockFormat) else "dense"


def patterns_of(device: Device, kind: str) -> list[Tensor]:
    """The patterns of a format that has such, on a device: a list of none or one."""
    name = FORMS[kind].grid if kind in FORMS else ""
    if not name:
        return []
    if name not in device.constants:
        device.constants[name] = of(grid(name).view(np.uint8))
        device.constants[name].storage.at(device)
    return [device.constants[name]]


def seen_matrix(device: Device, weight: Tensor) -> tuple[Tensor, int]:
    """A weight [N K] with contiguous rows, and the stride between them: in elements, of quantised blocks in bytes."""
    d = weight.dtype
    if isinstance(d, BlockFormat):
        return weight, weight.strides[0] // d.block * d.nbytes
    if weight.shape[1] > 1 and weight.strides[1] != 1:
        weight = contiguous(device, weight)
    return weight, weight.strides[0]


def multiplied(device: Device, x: Rows, weight: Tensor, bias: Tensor | None, y: Tensor) -> None:
    """y [rows, N] = x weight^T + bias."""
    kind = kind_of(weight)
    (matrix, stride), patterns = seen_matrix(device, weight), patterns_of(device, kind)
    n, k = weight.shape
    b = x.tensor if bias is None else contiguous(device, bias)
    scalars = [k, n, x.number, x.stride, stride, int(bias is not None)]
    across = -(-n // WIDE)
    if x.number < FEW:
        device.launch(matrix_kernel(kind, 1), [x.tensor, matrix, b, x.tensor, *patterns, y], [*scalars, 0, 1, 0], across * x.number)
    else:
        device.launch(matrix_kernel(kind, MANY), [x.tensor, matrix, b, *patterns, y], scalars, across * -(-x.number // MANY))


def unreadable(name: str, weight: Tensor) -> str | None:
    """Why no kernel reads a weight, or None."""
    return None if kind_of(weight) in WEIGHTS else f"{name} is {weight.dtype}, which no kernel reads"


def _declines(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    return unreadable("weight", weight)


@runs(ops.linear, declines=_declines)
def linear(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One launch, whatever the number of rows."""
    y = empty(device, (*x.shape[:-1], weight.shape[0]))
    multiplied(device, rows(device, x), weight, bias, y)
    return y
