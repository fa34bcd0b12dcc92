"""Products with a weight [N K]: one row of outputs at a time for few rows, tiles of eight rows for many. Both add in the same order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.parts import parts
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import Rows, contiguous, rows
from vtcore.providers.kernels.blocks import FORMS
from vtcore.providers.kernels.ops.elementwise import concat
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
    """Which matrix a row meets, where there are several: that of its number; `only`: rows of another number are left as they are."""

    ids: Tensor  # int32, one a row
    share: int  # rows that have one row of x in common
    matrices: int
    each: int = 0  # from one matrix to the next, as `seen_matrix` counts
    only: int | None = None

    @property
    def scalars(self) -> list[int]:
        """As kernels take them."""
        return [1 if self.only is None else self.only + 2, self.share, self.each, self.matrices]


NO_CHOICE = [0, 1, 0, 1]


def multiplied(device: Device, x: Rows, weight: Tensor, bias: Tensor | None, y: Tensor, choice: Choice | None = None) -> None:
    """y [rows, N] = x weight^T + bias."""
    kind = kind_of(weight)
    (matrix, stride), patterns = seen_matrix(device, weight), patterns_of(device, kind)
    n, k = weight.shape[-2:]
    b = x.tensor if bias is None else contiguous(device, bias)
    number = x.number if choice is None else choice.ids.size
    scalars, across = [k, n, number, x.stride, stride, int(bias is not None)], -(-n // WIDE)
    if choice is not None or number < FEW:
        ids, last = (x.tensor, NO_CHOICE) if choice is None else (choice.ids, choice.scalars)
        device.launch(KERNELS[kind, 1], [x.tensor, matrix, b, ids, *patterns, y], [*scalars, *last], across * number)
    else:
        device.launch(KERNELS[kind, MANY], [x.tensor, matrix, b, *patterns, y], scalars, across * -(-number // MANY))


def side_by_side(
    device: Device, lead: tuple[int, ...], weight: Tensor, bias: Tensor | None, multiply: Callable[[Tensor, Tensor | None, Tensor], None]
) -> Tensor:
    """[*lead N]: what `multiply(weight, bias, result)` gives for each part of a weight and of its bias."""
    made = []
    for part, first in parts(device, weight):
        made.append(empty(device, (*lead, part.shape[0])))
        multiply(part, bias if bias is None or part is weight else bias[first : first + part.shape[0]], made[-1])
    return reduce(partial(concat, device), made)


def unreadable(name: str, weight: Tensor) -> str | None:
    """Why no kernel reads a weight, or None."""
    return None if kind_of(weight) in WEIGHTS else f"{name} is {weight.dtype}, which no kernel reads"


def _declines(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    return unreadable("weight", weight)


@runs(ops.linear, declines=_declines, parts=("weight",))
def linear(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """One launch, whatever the number of rows; of a weight in parts, one a part."""
    return side_by_side(device, x.shape[:-1], weight, bias, partial(multiplied, device, rows(device, x)))
