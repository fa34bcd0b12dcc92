"""Block-quantised storage formats, one family a file. Importing this package makes all of them known in FORMATS."""

from vtcore.quant import fp8, iq, k, legacy, microscaling, ternary
from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks, Codes, as_float32

__all__ = ["FORMATS", "BlockFormat", "Blocks", "Codes", "as_float32", "fp8", "iq", "k", "legacy", "microscaling", "ternary"]
