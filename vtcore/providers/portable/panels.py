"""Weights repacked into panels of rows, once, by compiled code; kept with the weight's storage as long as that lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.mapped import forget
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import DTYPES, dtype_of
from vtcore.providers.portable.formats import native
from vtcore.providers.portable.formats.coded import Coded, layout_key, layout_of
from vtcore.providers.portable.formats.layout import GROUPS, Layout
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.value import I16, I32, Val
from vtcore.quant.blocks import BlockFormat, Blocks
from vtcore.tensor import Tensor, of

if TYPE_CHECKING:
    from vtcore.providers.portable.provider import Portable

PORTION = 1 << 22  # values that a format's NumPy code takes apart at a time


class Panels(NamedTuple):
    """A weight [rows, columns] as a stream of panels. kind: the layout's key, or a dense one's dtype ([columns][R] elements a panel)."""

    data: Tensor
    kind: str
    rows: int
    columns: int


def panels_of(p: Portable, weight: Tensor) -> Panels:
    """The panels of a weight: made at the first call."""
    key = (p.name, str(p.isa), "panels", weight.offset, weight.shape, weight.strides)
    made: Panels | None = weight.storage.forms.get(key)
    if made is None:
        made = weight.storage.forms[key] = _pack(p, weight)
        forget(weight.storage.copies[HOST].buffer)
    return made


def layout_for(fmt: BlockFormat) -> Layout:
    """The layout that a format's weights are kept in: its own, or codes."""
    if fmt.name in native():
        return native()[fmt.name]
    codes = Blocks(np.zeros((1, fmt.nbytes), np.uint8), fmt).codes()
    return Coded(codes.code.shape[-1], codes.offset is not None)


def panel_rows(p: Portable) -> int:
    return 2 * p.isa.lanes


def panel_count(p: Portable, rows: int) -> int:
    return -(-rows // panel_rows(p))


def _pack(p: Portable, weight: Tensor) -> Panels:
    rows, columns = weight.shape
    count = panel_count(p, rows)
    if not isinstance(weight.dtype, BlockFormat):
        dtype = dtype_of(weight)
        data = p.slabs.tensor(count * columns * panel_rows(p) * SIZES[dtype])
        p.launch(pack_dense, [weight, rows, columns, *weight.strides, data], weight.size, dtype=dtype)
        return Panels(data, dtype, rows, columns)
    layout = layout_for(weight.dtype)
    k = Lanes("sizes", p.isa)
    data = p.slabs.tensor(count * (columns // layout.block) * layout.block_bytes(k))
    if isinstance(layout, Coded):
        _pack_codes(p, weight, layout, data)
    else:
        step = weight.strides[0] // layout.block * layout.nbytes
        p.launch(pack_blocks, [weight, rows, columns // layout.block, step, data], weight.size, kind=layout_key(layout))
    return Panels(data, layout_key(layout), rows, columns)


def _pack_codes(p: Portable, weight: Tensor, layout: Coded, data: Tensor) -> None:
    rows, columns = weight.shape
    portion = max(1, PORTION // max(1, columns * panel_rows(p))) * panel_rows(p)
    blocks: Blocks = weight.bare()
    for first in range(0, rows, portion):
        code, scale, offset = blocks[first : first + portion].codes()
        n = len(code)
        scales = [s for s in (scale, offset) if s is not None]
        if code.size and (code.min() < -128 or code.max() > 127):
            raise ArgumentError(f"{weight.dtype} has codes from {code.min()} to {code.max()}; an integer form has codes of 8 bits")
        heads = np.concatenate([s.reshape(n, columns // 32, layout.parts) for s in scales], -1).astype(np.float32)
        words: list[Word] = [of(code.astype(np.int8).reshape(n, columns)), of(heads), n, columns // 32, first // panel_rows(p), data]
        p.launch(pack_codes, words, n * columns, kind=layout_key(layout))


def not_codes(weight: Tensor) -> str | None:
    """Why a quantised weight can't be kept as 8-bit codes."""
    fmt = weight.dtype
    if not isinstance(fmt, BlockFormat) or fmt.name in native():
        return None
    if fmt.codes is None:
        return f"weight is {fmt}, which has no integer form"
    width = Blocks(np.zeros((1, fmt.nbytes), np.uint8), fmt).codes().code.shape[-1]
    return None if width in (4, 8, 16, 32) else f"weight is {fmt}, with {width} values to a scale; the kernel takes 4, 8, 16 or 32"


@kernel("w rows columns row_step column_step -> out")
def pack_dense(k: Lanes, w: Val, rows: Val, columns: Val, row_step: Val, column_step: Val, out: Val, *, dtype: str) -> None:
    """[rows, columns] to panels [columns][R]; rows that don't exist repeat the last one."""
    height, size = 2 * k.lanes, SIZES[dtype]
    element = I32 if size == 4 else I16
    panels = (rows + (height - 1)) // height
    for task in k.share(panels * height):
        source = w + k.min(task, rows - 1) * row_step * size
        target = out + (task // height * columns * height + task % height) * size
        for i in k.range(columns):
            k.store(target + i * (height * size), k.load(source + i * column_step * size, element))


@kernel("w rows blocks row_bytes -> out")
def pack_blocks(k: Lanes, w: Val, rows: Val, blocks: Val, row_bytes: Val, out: Val, *, kind: str) -> None:
    """Raw rows of blocks to panels; rows that don't exist repeat the last one."""
    layout, height = layout_of(kind), 2 * k.lanes
    panels, size = (rows + (height - 1)) // height, SIZES[layout.head_dtype]
    for task in k.share(panels * blocks):
        block = out + task * layout.block_bytes(k)
        for r in k.range(height):
            row = k.min(task // blocks * height + r, rows - 1)
            raw = w + row * row_bytes + task % blocks * layout.nbytes
            for i, v in enumerate(layout.head(k, raw)):
                k.store(block + (i * height + r) * size, v)
            for s in range(layout.subs):
                sub = block + (layout.head_bytes(k) + s * layout.sub_bytes(k))
                for i, v in enumerate(layout.small(k, raw, s)):
                    k.store(sub + i * height + r, v)
                layout.write_quads(k, sub, r, [layout.quad(k, raw, s, g) for g in range(GROUPS)])


@kernel("codes heads rows blocks first -> out")
def pack_codes(k: Lanes, codes: Val, heads: Val, rows: Val, blocks: Val, first: Val, out: Val, *, kind: str) -> None:
    """Codes int8 [rows, 32 blocks] and heads float32 [rows, blocks, heads] to panels from the first-th on."""
    layout, height = layout_of(kind), 2 * k.lanes
    panels = (rows + (height - 1)) // height
    for task in k.share(panels * blocks):
        block = out + (first * blocks + task) * layout.block_bytes(k)
        for r in k.range(height):
            at = k.min(task // blocks * height + r, rows - 1) * blocks + task % blocks
            for i in range(layout.heads):
                k.store(block + i * height * 4 + r * 4, k.load(heads + (at * layout.heads + i) * 4, I32))
            quads = [k.load(codes + at * 32 + g * 4, I32) for g in range(GROUPS)]
            layout.write_quads(k, block + layout.head_bytes(k), r, quads)


def dense_weight(weight: Tensor) -> bool:
    return dtype_of(weight) in DTYPES
