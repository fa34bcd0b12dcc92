"""What a model holds: a Tensor is a view (shape, dtype, strides, offset) of a Storage. No arithmetic, no values, no device in the type."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any, NoReturn

import numpy as np

from vtcore.memory import HOST, Held, Memory
from vtcore.quant.blocks import BlockFormat, Blocks
from vtcore.storage import Moved, Storage

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
DType = np.dtype[Any] | BlockFormat


@lru_cache(4096)
def steps(shape: Shape) -> Shape:
    """Strides, in elements, of a C-contiguous array."""
    out, n = [], 1
    for size in reversed(shape):
        out.append(n)
        n *= size
    return tuple(reversed(out))


class Tensor:
    """A view of a storage. Strides and offset count elements; of quantised blocks they are multiples of the block along the last axis."""

    __slots__ = ("dtype", "offset", "shape", "storage", "strides")

    def __init__(self, storage: Storage, shape: Shape, dtype: DType, strides: Shape | None = None, offset: int = 0) -> None:
        self.storage, self.shape, self.dtype, self.offset = storage, shape, dtype, offset
        self.strides = steps(shape) if strides is None else strides
        if type(dtype) is BlockFormat and (shape[-1] % dtype.block or offset % dtype.block):
            raise ValueError(
                f"{dtype.name} is read in blocks of {dtype.block}: a view can't show {shape[-1]} of a row from element {offset}"
            )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values that this view shows."""
        return self._bytes(self.size)

    @property
    def contiguous(self) -> bool:
        return self.strides == steps(self.shape)

    @property
    def address(self) -> int:
        """Where the first element lies in host memory; true only while the host's copy is."""
        return self.storage.address + (self._bytes(self.offset) if self.offset else 0)

    def _bytes(self, elements: int) -> int:
        d = self.dtype
        return elements // d.block * d.nbytes if isinstance(d, BlockFormat) else elements * d.itemsize

    def reshape(self, *shape: Any) -> Tensor:
        """A view, always; where only a copy would do, an error: a copy is an op."""
        wanted: Shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if -1 in wanted and (rest := -prod(wanted)) > 0:
            wanted = tuple(self.size // rest if n == -1 else n for n in wanted)
        if prod(wanted) != self.size:
            raise ValueError(f"a tensor of shape {list(self.shape)} can't be seen as {list(wanted)}")
        if self.contiguous:
            return Tensor(self.storage, wanted, self.dtype, None, self.offset)
        view = self._shadow().reshape(wanted, copy=False)
        return Tensor(self.storage, wanted, self.dtype, view.strides, self.offset)

    def transpose(self, *axes: int) -> Tensor:
        """The same elements with the axes in another order: only strides change."""
        return Tensor(self.storage, tuple(self.shape[a] for a in axes), self.dtype, tuple(self.strides[a] for a in axes), self.offset)

    def __getitem__(self, key: Any) -> Tensor:
        """A view, by numbers, slices, None and `...`; rows by an array of numbers are an op's business (embedding)."""
        keys = key if isinstance(key, tuple) else (key,)
        if not all(k is None or k is Ellipsis or isinstance(k, (int, np.integer, slice)) for k in keys):
            raise TypeError(f"a tensor is viewed by numbers, slices, None and ...; got {key!r:.60}")
        shadow = self._shadow()
        view = shadow[keys if Ellipsis in keys else (*keys, ...)]
        begin = view.__array_interface__["data"][0] - shadow.__array_interface__["data"][0] if view.size else 0
        return Tensor(self.storage, view.shape, self.dtype, view.strides, self.offset + begin)

    def _shadow(self) -> Array:
        """An array of one-byte elements of this shape over nothing, to let NumPy work out views."""
        return np.lib.stride_tricks.as_strided(np.empty(1, np.int8), self.shape, self.strides)

    def numpy(self, which: Array | None = None, moved: Moved | None = None) -> Any:
        """The values on the host: a view of the host's copy (of quantised tensors, Blocks)."""
        self.storage.at(HOST, which, moved)
        return self.bare()

    def bare(self) -> Any:
        """As `numpy`, but of whatever the host's copy holds now: rows that were not brought there may be false."""
        buffer, d = self.storage.copies[HOST].buffer, self.dtype
        if isinstance(d, BlockFormat):
            shape = (*self.shape[:-1], d.row_bytes(self.shape[-1]))
            strides = (*(self._bytes(s) for s in self.strides[:-1]), 1)
            return Blocks(np.ndarray(shape, np.uint8, buffer, self._bytes(self.offset), strides), d)
        n = d.itemsize
        return np.ndarray(self.shape, d, buffer, self.offset * n, tuple(s * n for s in self.strides))

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}{list(self.shape)})"

    def _no(self, *_: Any) -> NoReturn:
        raise TypeError("a Tensor has no values and no arithmetic: hand it to an op, or read it with .numpy() outside a model")

    __bool__ = __iter__ = __len__ = __array__ = __index__ = __int__ = __float__ = __eq__ = __lt__ = __gt__ = _no
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __neg__ = __matmul__ = __pow__ = _no
    __hash__ = object.__hash__


def of(array: Array | Blocks) -> Tensor:
    """A host array as a Tensor: no copy if it is contiguous, so a memory-mapped weight stays on disk until it is read."""
    data = np.ascontiguousarray(array.data if isinstance(array, Blocks) else array)
    flat = data.reshape(-1).view(np.uint8) if data.size else np.zeros(0, np.uint8)
    return Tensor(Storage.holding(data.nbytes, HOST, Held(flat, 0, None)), array.shape, array.dtype)


def empty(memory: Memory, shape: Shape, dtype: Any = np.float32) -> Tensor:
    """Room for a kernel's output, true where it will be written."""
    dtype = np.dtype(dtype)
    nbytes = prod(shape) * dtype.itemsize
    return Tensor(Storage.holding(nbytes, memory, memory.alloc(nbytes, scratch=True)), shape, dtype)


def zeros(shape: Shape, dtype: Any = np.float32) -> Tensor:
    """A cache: pages of zeros that exist nowhere yet, each with a truth of its own."""
    return Tensor(Storage(prod(shape) * np.dtype(dtype).itemsize, rows=shape[0]), shape, np.dtype(dtype))


def bare(value: Any) -> Any:
    """Tensors as host arrays, also inside lists and tuples; anything else as it is."""
    if isinstance(value, Tensor):
        return value.bare()
    return type(value)(bare(v) for v in value) if isinstance(value, (list, tuple)) else value


def held(value: Any) -> Any:
    """Host arrays as Tensors, also inside tuples; anything else as it is."""
    if isinstance(value, (np.ndarray, Blocks)):
        return of(value)
    return tuple(held(v) for v in value) if isinstance(value, tuple) else value


class Inputs:
    """A step's small integer arrays as int32 views of one storage: one upload a step, addresses that stay."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        offset, self.where = 0, dict[str, tuple[int, Shape]]()
        for name, a in arrays.items():
            self.where[name] = (offset, a.shape)
            offset += -(-max(a.size, 1) // 4) * 4
        self.whole = of(np.zeros(offset, np.int32))
        self.whole.storage.apart = True
        self.host: Array = self.whole.numpy()
        self.tensors = {n: Tensor(self.whole.storage, shape, np.dtype(np.int32), None, at) for n, (at, shape) in self.where.items()}
        self.update(arrays)

    def update(self, arrays: Mapping[str, Array]) -> None:
        """Write the next step's numbers, of the same shapes."""
        for name, a in arrays.items():
            at, shape = self.where[name]
            if a.shape != shape:
                raise ValueError(f"input {name!r} has shape {list(a.shape)}; this step was made for {list(shape)}")
            self.host[at : at + a.size] = a.reshape(-1)
        self.whole.storage.wrote(HOST)
