"""embedding: rows of a table by their ids. Quantised rows are taken apart as they lie in the checkpoint: only what is named is read.

Ids outside the table are the caller's error; here they are moved to its edge, so that no memory outside is read."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import contiguous_integers, dtype_of, not_integer
from vtcore.providers.portable.floats import widen
from vtcore.providers.portable.formats import native
from vtcore.providers.portable.formats.coded import layout_of
from vtcore.providers.portable.formats.layout import GROUPS, Layout
from vtcore.providers.portable.isa import SIGN
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.panels import dense_weight, not_codes, panels_of
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, I8, I32, Val, vec
from vtcore.quant.blocks import BlockFormat
from vtcore.tensor import Tensor, empty


def _row(k: Lanes, ids: Val, i: Val, rows: Val, ids_dtype: str) -> Val:
    return k.clamp(k.integer(ids + i * SIZES[ids_dtype], ids_dtype), 0, rows - 1)


@kernel("table ids count rows columns row_step column_step -> y")
def take_dense(k: Lanes, table: Val, ids: Val, count: Val, rows: Val, columns: Val, row_step: Val, column_step: Val, y: Val,
               *, dtype: str, ids_dtype: str, even: bool) -> None:  # fmt: skip
    """y[i] = float32(table[ids[i]]); `even` where the values of a row are neighbours."""
    size = SIZES[dtype]
    for i in k.share(count):
        source, target = table + _row(k, ids, i, rows, ids_dtype) * row_step * size, y + i * columns * 4
        if even:
            for c, part in k.vectors(columns):
                k.put(target + c * 4, k.floats(source + c * size, dtype, part), "float32", part)
        else:
            for c in k.range(columns):
                k.put_number(target + c * 4, k.number(source + c * column_step * size, dtype))


@kernel("table ids count rows blocks row_bytes -> y")
def take_blocks(k: Lanes, table: Val, ids: Val, count: Val, rows: Val, blocks: Val, row_bytes: Val, y: Val,
                *, kind: str, ids_dtype: str) -> None:  # fmt: skip
    """y[i] = the values of raw row ids[i]."""
    layout = layout_of(kind)
    for i in k.share(count):
        source = table + _row(k, ids, i, rows, ids_dtype) * row_bytes
        for b in k.range(blocks):
            raw = source + b * layout.nbytes
            head = [widen(k, h, layout.head_dtype) for h in layout.head(k, raw)]
            for s in range(layout.subs):
                how = "sext" if layout.smalls_signed else "zext"
                small = [v.cast(how, I32).cast("sitofp", F32) for v in layout.small(k, raw, s)]
                quads = [layout.quad(k, raw, s, g) for g in range(GROUPS)]
                _put_values(k, layout, y + ((i * blocks + b) * layout.block + s * 32) * 4, quads, head, small)


@kernel("panels ids count rows blocks -> y")
def take_codes(k: Lanes, panels: Val, ids: Val, count: Val, rows: Val, blocks: Val, y: Val, *, kind: str, ids_dtype: str) -> None:
    """y[i] = the values of row ids[i] of panels of 8-bit codes."""
    layout, height = layout_of(kind), 2 * k.lanes
    for i in k.share(count):
        row = _row(k, ids, i, rows, ids_dtype)
        for b in k.range(blocks):
            block = panels + (row // height * blocks + b) * layout.block_bytes(k) + row % height * 4
            head = [k.number(block + h * height * 4) for h in range(layout.heads)]
            quads = [k.load(block + layout.head_bytes(k) + g * height * 4, I32) for g in range(GROUPS)]
            quads = [q ^ SIGN for q in quads] if k.isa.signed_zero else quads
            _put_values(k, layout, y + (i * blocks + b) * 128, quads, head, [])


def _put_values(k: Lanes, layout: Layout, target: Val, quads: list[Val], head: list[Val], small: list[Val]) -> None:
    """32 values of one row: scale * (code - zero) - offset."""
    for g, quad in enumerate(quads):
        part = g * layout.parts // GROUPS
        codes = quad.bitcast(vec(I8, 4)).cast("sext" if layout.signed else "zext", I32) - layout.zero
        values = layout.number(codes) * k.splat(layout.scale(head, small, part), 4)
        k.store(target + g * 16, values - k.splat(layout.offset(head, small, part), 4) if layout.offsets else values)


def take(p: Portable, table: Tensor, ids: Tensor) -> Tensor:
    """Rows of a dense or quantised table."""
    ids = contiguous_integers(ids)
    rows, columns = table.shape
    out = empty(HOST, (*ids.shape, columns))
    if not out.size:
        return out
    ids_dtype, fmt = dtype_of(ids), table.dtype
    if not isinstance(fmt, BlockFormat):
        words: list[Word] = [table, ids, ids.size, rows, columns, *table.strides, out]
        p.launch(take_dense, words, out.size, dtype=dtype_of(table), ids_dtype=ids_dtype, even=table.strides[1] == 1)
    elif fmt.name in native():
        words = [table, ids, ids.size, rows, columns // fmt.block, table.strides[0] // fmt.block * fmt.nbytes, out]
        p.launch(take_blocks, words, out.size, kind=fmt.name, ids_dtype=ids_dtype)
    else:
        panels = panels_of(p, table)
        p.launch(take_codes, [panels.data, ids, ids.size, rows, columns // 32, out], out.size, kind=panels.kind, ids_dtype=ids_dtype)
    return out


def _declines(table: Tensor, ids: Tensor) -> str | None:
    return not_integer(ids=ids) or (None if dense_weight(table) else not_codes(table))


def register(p: Portable) -> None:
    """embedding."""

    @p.kernel(ops.embedding, declines=_declines)
    def embedding(table: Tensor, ids: Tensor) -> Tensor:
        return take(p, table, ids)
