"""8-bit floats under a float32 scale for each 32: how checkpoints in FP8 are held, whatever the size of their blocks.

Format: Micikevicius and others, "FP8 formats for deep learning", 2022 (E4M3). GGUF has no such type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from vtcore.quant.blocks import BlockFormat, register

Array = np.ndarray[Any, Any]
HEAD = 4  # bytes of a block's scale


def _values() -> Array:
    """Of each code, float32 [256]. 0x7F and 0xFF, NaN in the paper, go on in steps of 32 (480): whoever reads a file refuses them."""
    table: Array = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    table[[0x7F, 0xFF]] = 480, -480
    return table


E4M3 = _values()


@np.errstate(invalid="ignore", over="ignore")
def dequantize(blocks: Array) -> Array:
    """scale * code, rounded once: uint8 [n, 36] to float32 [n, 32]."""
    scale = np.ascontiguousarray(blocks[:, :HEAD]).view(np.float32)
    return np.asarray(E4M3[blocks[:, HEAD:]] * scale)


F8_E4M3 = register(BlockFormat("F8_E4M3", None, 32, HEAD + 32, dequantize))
