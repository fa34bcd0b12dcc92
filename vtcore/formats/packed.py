"""One weight whose codes and scales are two tensors of a file: put together as blocks when it is read, a matrix at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from vtcore.errors import CheckpointError
from vtcore.formats.raw import RawTensor
from vtcore.quant.blocks import Blocks
from vtcore.quant.fp8 import F8_E4M3
from vtcore.quant.microscaling import MXFP4

Array = np.ndarray[Any, Any]
RUN = 32  # values of a block in both formats
FLOATS = tuple(map(np.dtype, (np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e8m0fnu)))


@dataclass(frozen=True, eq=False)
class Packed(RawTensor):
    """`data` holds the codes, `scales` what they are multiplied by."""

    scales: RawTensor = field(repr=False)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.scales.nbytes


class Microscaled(Packed):
    """MXFP4: values 2 i and 2 i + 1 in the low and the high nibble of byte i, one E8M0 scale for 32."""

    @classmethod
    def of(cls, name: str, codes: RawTensor, scales: RawTensor) -> Microscaled:
        """From uint8 [..., K / 32, 16] or [..., K / 2], and uint8 [..., K / 32]. Raises CheckpointError where they don't fit."""
        lead, runs = scales.shape[:-1], scales.shape[-1] if scales.shape else 0
        fits = codes.shape in ((*scales.shape, RUN // 2), (*lead, runs * (RUN // 2)))
        if not fits or not scales.shape or {codes.dtype, scales.dtype} != {np.dtype(np.uint8)}:
            raise CheckpointError(
                f"{codes.name} is {list(codes.shape)} ({codes.dtype}) and {scales.name} {list(scales.shape)} ({scales.dtype}); "
                "they must be uint8, 16 bytes to one scale"
            )
        return cls(name, (*lead, runs * RUN), MXFP4, codes.source, codes.data, scales)

    def load(self, part: int | None = None) -> Blocks:
        """The weight as ggml's blocks; or only its part-th matrix."""
        scales: Array = self.scales.data.reshape(self.scales.shape)
        codes: Array = self.data.reshape(*self.scales.shape, RUN // 2)
        scales, codes = (scales, codes) if part is None else (scales[part], codes[part])
        if (scales == 255).any():
            raise CheckpointError(f"{self.source}: tensor {self.scales.name!r} holds the scale 255, which is no number")
        first, last = codes[..., :8], codes[..., 8:]
        out = np.empty((*scales.shape, 1 + RUN // 2), np.uint8)
        out[..., 0] = scales
        out[..., 1::2] = first & 15 | last << 4
        out[..., 2::2] = first >> 4 | last & 0xF0
        return Blocks(out.reshape(*scales.shape[:-1], -1), MXFP4)


@dataclass(frozen=True, eq=False)
class Float8(Packed):
    """E4M3: a scale for a whole matrix, for a row, or for a block of rows and columns."""

    block: tuple[int, int]

    @classmethod
    def of(cls, name: str, codes: RawTensor, scales: RawTensor, block: tuple[int, int]) -> Float8:
        """From codes [N, K]. In blocks of 32 where K allows that, else in float32. Raises CheckpointError where they don't fit."""
        if len(codes.shape) != 2:
            raise CheckpointError(f"{name} is {list(codes.shape)} in 8-bit floats; a matrix with two axes can be read")
        rows, columns = codes.shape
        blocks = -(-rows // block[0]), -(-columns // block[1])
        sizes = {(): codes.shape, (1,): codes.shape, (1, 1): codes.shape, (rows,): (1, columns), (rows, 1): (1, columns)}
        sizes = {blocks: block} | sizes
        if scales.shape not in sizes or scales.dtype not in FLOATS:
            raise CheckpointError(
                f"{scales.name} is {list(scales.shape)} ({scales.dtype}); for {name} {list(codes.shape)} it must hold floats, "
                f"one, one a row, or {list(blocks)} for blocks of {list(block)}"
            )
        size = sizes[scales.shape]
        whole = columns % RUN == 0 and (size[1] % RUN == 0 or size[1] >= columns)
        return cls(name, codes.shape, F8_E4M3 if whole else np.dtype(np.float32), codes.source, codes.data, scales, (size[0], size[1]))

    def load(self, part: int | None = None) -> Array | Blocks:
        """The weight, a copy; or only its part-th row."""
        codes: Array = self.data.reshape(self.shape)
        if ((codes & 0x7F) == 0x7F).any():
            raise CheckpointError(f"{self.source}: tensor {self.name!r} holds a code that is no number")
        if self.dtype == F8_E4M3:
            out = np.empty((self.shape[0], self.shape[1] // RUN, F8_E4M3.nbytes), np.uint8)
            out[..., :4] = self._scales(RUN)[..., None].view(np.uint8)
            out[..., 4:] = codes.reshape(*out.shape[:2], RUN)
            value: Array | Blocks = Blocks(out.reshape(self.shape[0], -1), F8_E4M3)
        else:
            value = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * self._scales(1)
        return value if part is None else value[part]

    def _scales(self, run: int) -> Array:
        """float32 [N, K / run]: the scale of each row's runs of columns."""
        stored = self.scales.load()
        scales: Array = np.asarray(stored, np.float32).reshape(-(-self.shape[0] // self.block[0]), -1)
        if not np.isfinite(scales).all():
            raise CheckpointError(f"{self.source}: tensor {self.scales.name!r} holds a scale that is no finite number")
        rows, columns = np.arange(self.shape[0]) // self.block[0], np.arange(0, self.shape[1], run) // self.block[1]
        return np.ascontiguousarray(scales[rows[:, None], columns])
