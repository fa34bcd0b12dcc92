"""How kernels read quantised blocks, one family of formats a file. Importing this package makes all of them known in FORMS."""

from vtcore.providers.kernels.blocks import iq, k, legacy, microscaling, ternary
from vtcore.providers.kernels.blocks.reader import FORMS, Chunk, Format, value

__all__ = ["FORMS", "Chunk", "Format", "iq", "k", "legacy", "microscaling", "ternary", "value"]
