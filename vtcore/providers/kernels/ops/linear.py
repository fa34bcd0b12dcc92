"""Products with a weight [N K]: one row of outputs at a time for few rows, tiles of eight rows for many. Both add in the same order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.parts import ROWS, parts
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import Rows, contiguous, rows
from vtcore.providers.kernels.blocks import FORMS
from vtcore.providers.kernels.products import GROUP, LANES, OUTPUTS, WEIGHTS, product_kernel
from vtcore.quant.blocks import BlockFormat
from vtcore.quant.iq import grid
from vtcore.tensor import Tensor, empty, of

MANY = 8  # rows of a tile
FEW = 3  # rows from which a tile is worth it
WIDE = GROUP // LANES * OUTPUTS  # outputs of a group


KERNELS = {(kind, tile): product_kernel(weight, tile) for kind, weight in WEIGHTS.items() for tile in (1, MANY)}


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
    """A weight [N K], or several, with contiguous rows, and the stride between them: in elements, of quantised blocks in bytes."""
    if kind_of(weight) == "dense" and weight.shape[-1] > 1 and weight.strides[-1] != 1:
        weight = contiguous(device, weight)
    return weight, counted(weight, weight.strides[-2])


def counted(weight: Tensor, stride: int) -> int:
    """A stride of elements as kernels count it."""
    d = weight.dtype
    return stride // d.block * d.nbytes if isinstance(d, BlockFormat) else stride


class Choice(NamedTuple):
    """Which matrix a row meets, where there are several: that of its number. A launch has those from `begin` on; other rows are left as
    they are."""

    ids: Tensor  # int32, one a row
    share: int  # rows that have one row of x in common
    matrices: int  # in all
    tiles: Tensor | None  # the rows by number, as `grouping.tiles` lists them, where tiles are worth it
    begin: int = 0
    length: int = 1
    each: int = 0  # from one matrix to the next, as `seen_matrix` counts


class Met(NamedTuple):
    """How a launch's rows meet its matrices: the tiles, and what kernels take to know of them."""

    rows: int  # of a tile
    tiles: int
    ids: Tensor
    scalars: list[int]


def met(number: int, many: int, choice: Choice | None, unread: Tensor) -> Met:
    """Tiles of `many` rows, or rows by themselves where they are few; `unread`: any tensor."""
    if choice is None:
        rows = many if number >= FEW else 1
        tiles = -(-number // rows)
        return Met(rows, tiles, unread, [0, 1, 0, 0, 1, tiles])
    scalars = [1, choice.share, choice.each, choice.begin, choice.length]
    if choice.tiles is None:
        return Met(1, number, choice.ids, [*scalars, choice.matrices])
    return Met(many, choice.tiles.shape[0], choice.tiles, [*scalars, choice.tiles.shape[0]])


def multiplied(device: Device, x: Rows, weight: Tensor, bias: Tensor | None, y: Tensor, choice: Choice | None = None) -> None:
    """y [rows, N] = x weight^T + bias; both may be columns of wider ones."""
    kind = kind_of(weight)
    (matrix, stride), patterns = seen_matrix(device, weight), patterns_of(device, kind)
    n, k = weight.shape[-2:]
    number = x.number if choice is None else choice.ids.size
    how = met(number, MANY, choice, x.tensor)
    scalars = [k, n, number, x.stride, stride, int(bias is not None), y.strides[-2], *how.scalars]
    tensors = [x.tensor, matrix, x.tensor if bias is None else bias, how.ids, *patterns, y]
    device.launch(KERNELS[kind, how.rows], tensors, scalars, -(-n // WIDE) * how.tiles)


def in_columns(
    device: Device, lead: tuple[int, ...], weight: Tensor, bias: Tensor | None, multiply: Callable[[Tensor, Tensor | None, Tensor], None]
) -> Tensor:
    """[*lead N]: what `multiply(weight, bias, result)` gives for each part of a weight and of its bias, in its columns of the result."""
    y, n = empty(device, (*lead, weight.shape[0])), weight.shape[0]
    bias = bias if bias is None else contiguous(device, bias)
    seen = y.reshape(prod(lead), n)
    for part, _, first in parts(device, weight, ROWS):
        columns = slice(first, first + part.shape[0])
        multiply(part, bias if bias is None else bias[columns], seen[:, columns])
    return y


def unreadable(name: str, weight: Tensor) -> str | None:
    """Why no kernel reads a weight, or None."""
    return None if kind_of(weight) in WEIGHTS else f"{name} is {weight.dtype}, which no kernel reads"


def _declines(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    return unreadable("weight", weight)


@runs(ops.linear, declines=_declines, parts={"weight": ROWS})
def linear(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One launch, whatever the number of rows; of a weight in parts, one a part."""
    return in_columns(device, x.shape[:-1], weight, bias, partial(multiplied, device, rows(device, x)))
