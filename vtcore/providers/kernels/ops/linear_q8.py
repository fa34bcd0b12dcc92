"""Products of rows rounded to 8 bits: one kernel rounds them, another multiplies, in the definition's order."""

from __future__ import annotations

from functools import partial

from vtcore import ops
from vtcore.providers.gpu.device import Device
from vtcore.providers.gpu.parts import ROWS
from vtcore.providers.gpu.table import runs
from vtcore.providers.gpu.views import rows
from vtcore.providers.kernels.blocks import FORMS
from vtcore.providers.kernels.ops.linear import WIDE, Choice, in_columns, kind_of, met, patterns_of, seen_matrix, unreadable
from vtcore.providers.kernels.rounded import BLOCK, FACTS, ROUND, rounded_kernel
from vtcore.tensor import Tensor, empty

MANY = 4  # rows of a tile


KERNELS = {(n, tile): rounded_kernel(form, tile) for n, form in FORMS.items() if form.fmt.codes for tile in (1, MANY)}


def rounded(device: Device, x: Tensor) -> tuple[Tensor, Tensor]:
    """x [... K] as whole numbers [rows K] and facts of each block of 32, made once for all that multiply it.

    Only of temporaries of the pool at hand is it kept: so a recorded step makes all that it reads, and nobody writes x in between."""
    key = (device, "rounded", x.offset, x.shape, x.strides)
    keeps = x.storage.copies[device].pool is device.scratch
    made = x.storage.forms.get(key) if keeps else None
    if made is None:
        seen = rows(device, x)
        blocks = seen.width // BLOCK
        made = empty(device, (seen.number, seen.width)), empty(device, (seen.number * blocks, FACTS))
        device.each(ROUND, [seen.tensor, *made], [blocks, seen.stride], seen.number * blocks)
        if keeps:
            x.storage.forms[key] = made
    codes, facts = made
    return codes, facts


def _declines(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    return unreadable("weight", weight)


@runs(ops.linear_q8, declines=_declines, parts={"weight": ROWS})
def linear_q8(device: Device, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Two launches, of which the first is shared by all that multiply x; of a weight in parts, one more a part."""
    return in_columns(device, x.shape[:-1], weight, bias, partial(multiplied, device, *rounded(device, x)))


def multiplied(
    device: Device, codes: Tensor, facts: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, choice: Choice | None = None
) -> None:
    """y [rows N] = rounded rows times the weight, and bias; both may be columns of wider ones."""
    kind, (matrix, stride) = kind_of(weight), seen_matrix(device, weight)
    n, k = weight.shape[-2:]
    number = codes.shape[0] if choice is None else choice.ids.size
    how = met(number, MANY, choice, codes)
    scalars = [k, n, number, k, stride, int(bias is not None), y.strides[-2], *how.scalars]
    tensors = [codes, facts, matrix, codes if bias is None else bias, how.ids, *patterns_of(device, kind), y]
    device.launch(KERNELS[kind, how.rows], tensors, scalars, -(-n // WIDE) * how.tiles)
