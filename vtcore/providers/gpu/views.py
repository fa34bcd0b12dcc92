"""Tensors as kernels read them: float32, and contiguous or in rows at one stride. Where one isn't, a copy on the device is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vtcore.providers.gpu.device import Device, is_float32
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty

MOST_AXES = 6

STRIDED_COPY = kernel(
    "strided_copy",
    buffers(reads="x:f32|f16|bf16", writes="y"),
    "total n1 n2 n3 n4 n5 s0 s1 s2 s3 s4 s5",
    """
    if (INDEX < total) {
        uint i = INDEX, at = 0u;
        at += i % n5 * s5; i /= n5;
        at += i % n4 * s4; i /= n4;
        at += i % n3 * s3; i /= n3;
        at += i % n2 * s2; i /= n2;
        at += i % n1 * s1 + i / n1 * s0;
        ST_y(INDEX, LD_x(at));
    }
""",
)


class Rows(NamedTuple):
    """A tensor of float32 whose last axis is contiguous, and whose rows follow each other at one stride, in elements."""

    tensor: Tensor
    number: int
    stride: int

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.tensor.shape[-1] if self.tensor.ndim else 1


def rows(device: Device, x: Tensor) -> Rows:
    """x as rows along its last axis: itself where it can be seen so, else a copy."""
    if is_float32(x) and (found := stride_of_rows(x)) is not None:
        return Rows(x, *found)
    copied = contiguous(device, x)
    return Rows(copied, *(stride_of_rows(copied) or (0, 1)))


def contiguous(device: Device, x: Tensor) -> Tensor:
    """x as contiguous float32: itself where it is so, else a copy."""
    return x if is_float32(x) and x.contiguous else _copied(device, x, x.shape, x.strides)


def broadcast(device: Device, x: Tensor, shape: Sequence[int]) -> Tensor:
    """x repeated to a shape by NumPy's rule, contiguous; itself where it has that shape and is so."""
    shape = tuple(shape)
    if x.shape == shape:
        return contiguous(device, x)
    lead = len(shape) - x.ndim
    strides = (*([0] * lead), *(0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)))
    return _copied(device, x, shape, strides)


def stride_of_rows(x: Tensor) -> tuple[int, int] | None:
    """(how many rows there are, the stride between them), if one stride walks them all."""
    if x.ndim == 0:
        return 1, 1
    if x.shape[-1] > 1 and x.strides[-1] != 1:
        return None
    count, stride = 1, x.shape[-1]
    outer = [(n, s) for n, s in zip(x.shape[:-1], x.strides[:-1], strict=True) if n != 1]
    for i, (n, s) in enumerate(reversed(outer)):
        if i == 0:
            stride = s
        elif s != stride * count:
            return None
        count *= n
    return (count, stride) if stride >= 0 else None


def _copied(device: Device, x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    """Elements of x at these strides, as a new contiguous tensor. A negative stride is 2^32 less: indices wrap around."""
    out = empty(device, shape, np.float32)
    joined = _joined(shape, strides)
    sizes = [1] * (MOST_AXES - len(joined)) + [n for n, _ in joined]
    steps = [0] * (MOST_AXES - len(joined)) + [s & 0xFFFFFFFF for _, s in joined]
    device.each(STRIDED_COPY, [x, out], [*(max(n, 1) for n in sizes[1:]), *steps], out.size)
    return out


def _joined(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Axes with their strides, neighbours that one stride walks as one."""
    out: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if out and out[-1][1] == s * n:
            out[-1] = out[-1][0] * n, s
        else:
            out.append((n, s))
    assert len(out) <= MOST_AXES, f"{len(out)} axes at unlike strides; the copy takes {MOST_AXES}"
    return out
