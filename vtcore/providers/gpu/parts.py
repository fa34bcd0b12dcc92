"""A matrix that no kernel sees as a whole, as matrices of some of its rows each. On the host nothing is copied: a part is a place in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from vtcore.providers.gpu.device import COUNTED, Device, Limits, too_large
from vtcore.quant.blocks import BlockFormat
from vtcore.tensor import Tensor, of

EVEN = 128  # rows: after so many a buffer may begin, on any device


class Part(NamedTuple):
    """Rows of a matrix [N K] from `first` on, true on the device."""

    rows: Tensor
    first: int


def parts(device: Device, matrix: Tensor) -> list[Part]:
    """A matrix as kernels see it: itself, or its rows in as few parts as do, which are kept as long as its bytes are the same."""
    if not too_large(matrix, device.limits):
        return [Part(matrix, 0)]
    key, forms = (device, "parts", matrix.offset, matrix.shape, matrix.strides), matrix.storage.forms
    if key not in forms:
        forms[key] = list(_cut(device, matrix))
    cut: list[Part] = forms[key]
    return cut


def rows_of_a_part(matrix: Tensor, limits: Limits) -> int:
    """How many rows a kernel can see at a time; 0 where even one is too much, or it is no matrix."""
    if matrix.ndim != 2:
        return 0
    d, k = matrix.dtype, max(1, matrix.shape[-1])
    most = min(limits.binding // (d.row_bytes(k) if isinstance(d, BlockFormat) else k * d.itemsize), (COUNTED - 1) // k)
    return most // EVEN * EVEN or most


def _cut(device: Device, matrix: Tensor) -> Iterator[Part]:
    most = rows_of_a_part(matrix, device.limits)
    for first in range(0, matrix.shape[0], most):
        rows = of(matrix[first : first + most].numpy())
        rows.storage.at(device)
        yield Part(rows, first)
