"""Any other format that has codes (`Blocks.codes()`): 8-bit signed codes, with float32 scales and offsets for every part of 32 values.

Taken apart by the format's own NumPy code when the weight is prepared; from there on, a layout like the others."""

from __future__ import annotations

from functools import cache

from vtcore.providers.portable.formats.layout import Layout
from vtcore.providers.portable.value import Val


class Coded(Layout):
    """Heads are the scales of the parts, then their offsets."""

    name = "coded"
    planes, signed, head_dtype = (8,), True, "float32"

    def __init__(self, width: int, offsets: bool) -> None:
        self.width, self.offsets = min(width, 32), offsets
        self.heads = self.parts * (1 + offsets)

    def scale(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[part]

    def offset(self, head: list[Val], small: list[Val], part: int) -> Val:
        return head[self.parts + part]


def layout_key(layout: Layout) -> str:
    """A layout as a static parameter of a kernel."""
    return f"coded/{layout.width}/{int(layout.offsets)}" if isinstance(layout, Coded) else layout.name


@cache
def layout_of(key: str) -> Layout:
    """The layout that `layout_key` named."""
    from vtcore.providers.portable.formats import native

    if key in native():
        return native()[key]
    _, width, offsets = key.split("/")
    return Coded(int(width), offsets == "1")
