"""Tensors as kernels want them: walks over several arrays in as few axes as their strides allow, and contiguous float32 copies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from vtcore.memory import HOST
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.value import Val
from vtcore.tensor import DType, Tensor, empty, of

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable

Shape = tuple[int, ...]
AXES = 4  # of a walk, after joining; an array with more that don't join is copied first, axis by axis
BLOCK = 1024  # elements of the last axis that one task takes
DTYPES = ("float32", "float16", "bfloat16")
KEPT = (*DTYPES, "float8_e4m3fn", "float8_e5m2", "int8")
INTEGERS = ("int32", "int64")


def dtype_of(tensor: Any) -> str:
    """float32, float16, bfloat16, int32, int64, or a block format's name."""
    return name_of(tensor.dtype)


@cache
def name_of(dtype: DType) -> str:
    """As NumPy writes it, which takes it long."""
    return str(dtype)


def rows_of(tensor: Tensor) -> int:
    """How many rows there are along the last axis."""
    n = 1
    for size in tensor.shape[:-1]:
        n *= size
    return n


def broadcast(tensor: Tensor, shape: Shape) -> Shape:
    """The strides of a tensor seen in a larger shape: 0 along axes that it is repeated on."""
    if tensor.shape == shape:
        return tensor.strides
    missing = len(shape) - tensor.ndim
    own = zip(tensor.shape, tensor.strides, strict=True)
    return (0,) * missing + tuple(0 if n == 1 else s for n, s in own)


@lru_cache(4096)
def joined(shape: Shape, *strides: Shape) -> tuple[Shape, tuple[Shape, ...]]:
    """The same walk in fewer axes: neighbours that every array steps through evenly become one, axes of 1 go."""
    axes: list[list[int]] = []
    for n, *steps in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if axes and all(outer == inner * n for outer, inner in zip(axes[-1][1:], steps, strict=True)):
            axes[-1] = [axes[-1][0] * n, *steps]
        else:
            axes.append([n, *steps])
    axes = axes or [[1] + [1] * len(strides)]
    columns = list(zip(*axes, strict=True))
    return tuple(columns[0]), tuple(tuple(c) for c in columns[1:])


def padded(shape: Shape, fill: int) -> Shape:
    """To AXES axes, by axes in front."""
    return (fill,) * (AXES - len(shape)) + shape


def contiguous(p: Portable, tensor: Tensor, shape: Shape | None = None) -> Tensor:
    """A contiguous float32 copy (of a larger shape that it is broadcast to)."""
    shape = tensor.shape if shape is None else shape
    out = empty(HOST, shape)
    copy_to(p, tensor, out)
    return out


def copy_to(p: Portable, source: Tensor, target: Tensor) -> None:
    """Write values, broadcast and as float32, into a view of any strides."""
    sizes, (a, b) = joined(target.shape, broadcast(source, target.shape), target.strides)
    if len(sizes) > AXES:
        whole = Tensor(source.storage, target.shape, source.dtype, broadcast(source, target.shape), source.offset)
        for i in range(target.shape[0]):
            copy_to(p, whole[i], target[i])
    elif target.size:
        words: list[Word] = [source, *padded(sizes, 1), *padded(a, 0), *padded(b, 0), target]
        p.launch(copy, words, target.size, dtype=dtype_of(source), even=a[-1] == 1 and b[-1] == 1)


@kernel("x n0 n1 n2 n3 a0 a1 a2 a3 b0 b1 b2 b3 -> y")
def copy(k: Lanes, x: Val, n0: Val, n1: Val, n2: Val, n3: Val, a0: Val, a1: Val, a2: Val, a3: Val,
         b0: Val, b1: Val, b2: Val, b3: Val, y: Val, *, dtype: str, even: bool) -> None:  # fmt: skip
    """y = float32(x), each with strides of its own; `even` where the last ones are 1."""
    size = SIZES[dtype]
    for (source, target), n in walk(k, (n0, n1, n2, n3), ((x, (a0, a1, a2, a3), size), (y, (b0, b1, b2, b3), 4))):
        if even:
            for i, count in k.vectors(n):
                k.put(target + i * 4, k.floats(source + i * size, dtype, count), "float32", count)
        else:
            for i in k.range(n):
                k.put_number(target + i * b3 * 4, k.number(source + i * a3 * size, dtype))


def walk(k: Lanes, shape: Sequence[Val], arrays: Sequence[tuple[Val, Sequence[Val], int]]) -> Any:
    """Share out a walk over four axes: the addresses where a part of the last axis begins in every array, and the part's length.

    arrays: (address, strides in elements, bytes of an element) each."""
    n0, n1, n2, n3 = shape
    blocks = (n3 + (BLOCK - 1)) // BLOCK
    for task in k.share(n0 * n1 * n2 * blocks):
        row, start = task // blocks, task % blocks * BLOCK
        index = (row // n2 // n1, row // n2 % n1, row % n2, start)
        where = []
        for address, strides, size in arrays:
            offset = index[0] * strides[0] + index[1] * strides[1] + index[2] * strides[2] + index[3] * strides[3]
            where.append(address + offset * size)
        yield where, k.min(n3 - start, BLOCK)


def float32_rows(p: Portable, tensor: Tensor) -> Tensor:
    """As it is where it is float32 and contiguous, else a copy that is."""
    return tensor if tensor.dtype == np.float32 and tensor.contiguous else contiguous(p, tensor)


def kept(x: Tensor, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
    """A form of an activation that several ops read, made for the first of them.

    Only of temporaries of the pool at hand: so a captured step makes all forms that it reads, and nobody writes x in between."""
    if x.storage.copies[HOST].pool is not HOST.scratch:
        return make()
    key = (key, x.offset, x.shape, x.strides)
    made: Tensor | None = x.storage.forms.get(key)
    if made is None:
        made = x.storage.forms[key] = make()
    return made


def not_float(**tensors: Any) -> str | None:
    """Why the kernels can't read one of these: its dtype."""
    for name, t in tensors.items():
        if t is not None and name_of(t.dtype) not in DTYPES:
            return f"{name} is {t.dtype}; the kernel reads {', '.join(DTYPES)}"
    return None


def not_kept(**tensors: Any) -> str | None:
    """Why the kernels can't read one of these as a cache: its dtype."""
    return next((f"{n} is {t.dtype}; the kernel reads {', '.join(KEPT)}" for n, t in tensors.items() if name_of(t.dtype) not in KEPT), None)


def not_integer(**tensors: Any) -> str | None:
    """Why the kernels can't read one of these as indices: its dtype."""
    for name, t in tensors.items():
        if t is not None and name_of(t.dtype) not in INTEGERS:
            return f"{name} is {t.dtype}; the kernel reads {' and '.join(INTEGERS)}"
    return None


def contiguous_integers(tensor: Tensor) -> Tensor:
    """A small index array as it is where it is contiguous, else a copy."""
    return tensor if tensor.contiguous else of(tensor.bare())
