"""Tensors as kernels read them: float32 or int32, and contiguous or in rows at one stride. Where one isn't, a copy on the device is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vtcore.providers.gpu.device import Device, is_float32
from vtcore.providers.kernels.declare import buffers, kernel
from vtcore.tensor import Tensor, empty, steps

MOST_AXES = 6

WALK = "total n1 n2 n3 n4 n5 s0 s1 s2 s3 s4 s5"
STORE = """
    if (INDEX < total) {
        uint i = INDEX, at = 0u;
        at += i % n5 * s5; i /= n5;
        at += i % n4 * s4; i /= n4;
        at += i % n3 * s3; i /= n3;
        at += i % n2 * s2; i /= n2;
        at += i % n1 * s1 + i / n1 * s0;
        ST_y(INDEX, VALUE);
    }
"""
STRIDED_COPY = kernel("strided_copy", buffers(reads="x:f32|f16|bf16", writes="y"), WALK, STORE.replace("VALUE", "LD_x(at)"))
STRIDED_INTEGERS = kernel(
    "strided_integers", buffers(reads="x:i32|u32|u8|i8", writes="y:i32"), WALK, STORE.replace("VALUE", "I32(LD_x(at))")
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
    return x if is_float32(x) and x.contiguous else copied(device, x)


def copied(device: Device, x: Tensor) -> Tensor:
    """A copy of x as contiguous float32, always."""
    return _copied(device, x, x.shape, x.strides)


def integers(device: Device, x: Tensor) -> Tensor:
    """x, of integers or of bool, as contiguous int32: itself where it is so, else a copy."""
    return x if x.dtype == np.int32 and x.contiguous else _copied(device, x, x.shape, x.strides, np.int32)


def entries(device: Device, x: Tensor) -> tuple[Tensor, int]:
    """x as float32 whose axes after the first are contiguous, and the stride between the first axis's entries: itself where it is so."""
    if not is_float32(x) or x.strides[1:] != steps(x.shape)[1:] or x.strides[0] < 0:
        x = contiguous(device, x)
    return x, x.strides[0]


def broadcast(device: Device, x: Tensor, shape: Sequence[int]) -> Tensor:
    """x repeated to a shape by NumPy's rule, contiguous; itself where it has that shape and is so."""
    shape = tuple(shape)
    if x.shape == shape:
        return contiguous(device, x)
    return _copied(device, x, shape, strides_in(x, shape))


def strides_in(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """x's strides where it is repeated to a shape: 0 along what is repeated."""
    lead = len(shape) - x.ndim
    return (*([0] * lead), *(0 if n == 1 else s for n, s in zip(x.shape, x.strides, strict=True)))


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


def _copied(device: Device, x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], dtype: type = np.float32) -> Tensor:
    """Elements of x at these strides, as a new contiguous tensor. A negative stride is 2^32 less: indices wrap around."""
    out = empty(device, shape, dtype)
    joined = joined_axes(shape, strides)
    sizes = [1] * (MOST_AXES - len(joined)) + [n for n, _ in joined]
    steps = [0] * (MOST_AXES - len(joined)) + [s & 0xFFFFFFFF for _, s in joined]
    copy = STRIDED_COPY if dtype is np.float32 else STRIDED_INTEGERS
    device.each(copy, [x, out], [*(max(n, 1) for n in sizes[1:]), *steps], out.size)
    return out


def joined_axes(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
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
