"""Block-quantised storage formats, one family a file. Importing this package makes every ggml type known in FORMATS."""

from vtcore.quant import iq, k, legacy, microscaling, ternary
from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks, Codes, as_float32

__all__ = ["FORMATS", "BlockFormat", "Blocks", "Codes", "as_float32", "iq", "k", "legacy", "microscaling", "ternary"]
