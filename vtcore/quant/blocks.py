"""Block-quantised arrays: the bytes as a checkpoint stores them, their format, and how to get the numbers back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from vtcore.errors import ArgumentError

Array = np.ndarray[Any, Any]
CHUNK = 1 << 18  # values dequantised at once: intermediate results stay in the cache, whatever the tensor's size


class Codes(NamedTuple):
    """Blocks taken apart: value = scale * code - offset, with one scale and one offset for every `code.shape[-1]` neighbours.

    code: int32 [n, sub-blocks, width]; scale: float32 [n, sub-blocks]; offset: float32 [n, sub-blocks] or None for zero.
    The width is 16 or 32 in every format, so that 32 neighbours always are whole sub-blocks. Codes fit 8 bits."""

    code: Array
    scale: Array
    offset: Array | None


@dataclass(frozen=True)
class BlockFormat:
    """One quantised storage format: `block` values of a row take `nbytes` bytes."""

    name: str
    ggml_type: int | None  # in GGUF files
    block: int
    nbytes: int
    dequantize: Callable[[Array], Array] = field(repr=False)  # uint8 [n, nbytes] -> float32 [n, block]
    codes: Callable[[Array], Codes] | None = field(default=None, repr=False)  # uint8 [n, nbytes] -> Codes; None: no integer form

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of `columns` values."""
        return columns // self.block * self.nbytes

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)


FORMATS: dict[str, BlockFormat] = {}


def register(fmt: BlockFormat) -> BlockFormat:
    """Make a format known by its name."""
    if FORMATS.setdefault(fmt.name, fmt) is not fmt:
        raise ValueError(f"block format {fmt.name!r} is defined twice")
    return fmt


def values(parts: Codes) -> Array:
    """scale * code - offset in float32, each operation rounded: float32 [n, sub-blocks * width]."""
    out = parts.code.astype(np.float32) * parts.scale[..., None]
    if parts.offset is not None:
        out -= parts.offset[..., None]
    return out.reshape(len(out), out.shape[1] * out.shape[2])


def define(name: str, ggml_type: int, block: int, nbytes: int, take_apart: Callable[[Array], Codes]) -> BlockFormat:
    """Register a format whose values are scale * code - offset. `take_apart`: uint8 [n, nbytes] -> Codes, its codes of any integer type.

    Scales that are infinite or NaN make inf and NaN without a warning, as the format says."""

    @np.errstate(invalid="ignore", over="ignore")
    def codes(blocks: Array) -> Codes:
        parts = take_apart(blocks)
        return Codes(parts.code.astype(np.int32), parts.scale, parts.offset)

    @np.errstate(invalid="ignore", over="ignore")
    def dequantize(blocks: Array) -> Array:
        return values(take_apart(blocks))

    return register(BlockFormat(name, ggml_type, block, nbytes, dequantize, codes))


class Blocks:
    """A quantised array on the host: uint8 data [..., row bytes] that stands for float values [..., K].

    `shape` is the shape of the values, `dtype` the format. Leading axes index and slice as in NumPy; the last axis stays whole."""

    __slots__ = ("data", "dtype")

    def __init__(self, data: Array, dtype: BlockFormat) -> None:
        if data.dtype != np.uint8 or data.shape[-1] % dtype.nbytes:
            raise ArgumentError(f"a row of {dtype.name} is a multiple of {dtype.nbytes} uint8; got {data.shape[-1]} {data.dtype}")
        self.data, self.dtype = data, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.data.shape[:-1], self.data.shape[-1] // self.dtype.nbytes * self.dtype.block)

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def dequantize(self) -> Array:
        """The values: float32 [..., K]."""
        flat = np.ascontiguousarray(self.data).reshape(-1, self.dtype.nbytes)
        out = np.empty((len(flat), self.dtype.block), np.float32)
        step = max(1, CHUNK // self.dtype.block)
        for i in range(0, len(flat), step):
            out[i : i + step] = self.dtype.dequantize(flat[i : i + step])
        return out.reshape(self.shape)

    def codes(self) -> Codes:
        """Codes [..., K / width, width], scales and offsets [..., K / width]; for formats that have an integer form."""
        if self.dtype.codes is None:
            raise ArgumentError(f"{self.dtype.name} has no integer form; dequantize() gives its values")
        c = self.dtype.codes(np.ascontiguousarray(self.data).reshape(-1, self.dtype.nbytes))
        lead = self.data.shape[:-1]
        return Codes(
            c.code.reshape(*lead, -1, c.code.shape[-1]),
            c.scale.reshape(*lead, -1),
            None if c.offset is None else c.offset.reshape(*lead, -1),
        )

    def __getitem__(self, key: Any) -> Blocks:
        if isinstance(key, tuple) and len(key) >= self.ndim:
            raise ArgumentError(f"the last axis of {self.dtype.name} blocks can't be indexed")
        return Blocks(self.data[key], self.dtype)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"Blocks({self.dtype.name}{list(self.shape)})"


def as_float32(array: Array | Blocks) -> Array:
    """The values of a dense or quantised array in float32: a view where it is float32 already."""
    return array.dequantize() if isinstance(array, Blocks) else np.asarray(array, np.float32)
