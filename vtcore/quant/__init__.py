"""Block-quantised storage formats, one family a file."""

from vtcore.quant.blocks import FORMATS, BlockFormat, Blocks, Codes, as_float32

__all__ = ["FORMATS", "BlockFormat", "Blocks", "Codes", "as_float32"]
