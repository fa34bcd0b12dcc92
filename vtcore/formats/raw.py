"""A file mapped into memory, and one tensor in it. Nothing is read from disk until somebody looks at the numbers."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.errors import CheckpointError, VtcoreError
from vtcore.quant.blocks import BlockFormat, Blocks

Array = np.ndarray[Any, Any]
LARGEST = 1 << 56  # elements: more than any file holds, few enough that no size in bytes overflows 63 bits


def map_file(path: Path, error: type[VtcoreError]) -> Array:
    """The bytes of a file as a read-only uint8 [size] view of it. Raises `error` where it can't be opened or is no regular file."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{path} is not a regular file")
        data = np.memmap(path, np.uint8, "r") if status.st_size else np.zeros(0, np.uint8)
    except OSError as e:
        raise error(f"{path} can't be read: {e.strerror or e}") from e
    return data.view(np.ndarray)


def impossible_shape(shape: tuple[int, ...]) -> str | None:
    """Why no array has this shape, whatever file it is in; None if one may."""
    shown = str(list(shape))[:80]
    if any(n < 0 for n in shape):
        return f"shape {shown} has a negative size"
    if prod(n for n in shape if n) > LARGEST:
        return f"shape {shown} has over 2**56 elements"
    return None


@dataclass(frozen=True, eq=False)
class RawTensor:
    """A tensor of a checkpoint as its file stores it.

    shape: of the values, outermost axis first (torch's order, also from GGUF). dtype: NumPy's (bfloat16 and float8 from ml_dtypes), or the
    format of its quantised blocks. source: the file. data: its bytes, uint8 [nbytes], a view of the mapped file."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | BlockFormat
    source: str
    data: Array = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in the file."""
        return self.data.nbytes

    def load(self, part: int | None = None) -> Array | Blocks:
        """The array or its blocks: a read-only view of the mapped file, or a copy where the file has it at an unaligned address.
        `part`: only that entry of the first axis.

        Raises CheckpointError where a boolean is neither 0 nor 1."""
        whole = self._whole()
        return whole if part is None else whole[part]

    def _whole(self) -> Array | Blocks:
        if isinstance(self.dtype, BlockFormat):
            return Blocks(self.data.reshape(*self.shape[:-1], self.dtype.row_bytes(self.shape[-1])), self.dtype)
        if self.dtype == np.bool_ and (self.data > 1).any():
            raise CheckpointError(f"{self.source}: tensor {self.name!r} holds a boolean that is {self.data.max()}; 0 or 1 is allowed")
        return np.require(self.data.view(self.dtype).reshape(self.shape), requirements="A")
