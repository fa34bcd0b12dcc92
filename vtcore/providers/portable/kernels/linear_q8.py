"""linear_q8: activations rounded to 8 bits, exact integer dot products of bytes, and the definition's float32 operations in its order.

So every instruction set gives the definition's own bits. A rounded activation block stands for 32 values:

    32 int8      q
    float32      d
    int32        for each part of 32 that has a scale: what its dot products start from, - (what stored codes are raised by) * sum(q)
    int32        for each part, where the format has offsets: sum(q)"""

from __future__ import annotations

from functools import cache, partial
from itertools import product

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, kept, not_float, rows_of
from vtcore.providers.portable.formats.coded import layout_of
from vtcore.providers.portable.formats.layout import GROUPS, Layout
from vtcore.providers.portable.isa import Isa
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.tiles import Output, each_tile, readable_bias, tiling
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.panels import dense_weight, not_codes, panels_of
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import F32, I8, I32, Val, Var
from vtcore.tensor import Tensor, empty

MANY = 4  # tiles from which a panel's codes are written out for them
SCALE, STARTS = 32, 36  # bytes of an activation block before its scale, its starts


def _totals(k: Lanes, layout: Layout) -> int:
    """Bytes before the sums."""
    return STARTS + (4 * layout.parts if layout.raised(k) else 0)


def activation_bytes(k: Lanes, layout: Layout) -> int:
    """Bytes of an activation block for a weight's layout."""
    return _totals(k, layout) + (4 * layout.parts if layout.offsets else 0)


@kernel("x blocks -> q")
def round_activations(k: Lanes, x: Val, blocks: Val, q: Val, *, kind: str) -> None:
    """Contiguous float32 to activation blocks."""
    layout = layout_of(kind)
    for b in k.share(blocks):
        block = q + b * activation_bytes(k, layout)
        values = [k.floats(x + b * 128 + i * k.width) for i in range(32 // k.lanes)]
        scale, divisor, usable = _scale(k, values)
        k.store(block + SCALE, scale)
        codes = [_round(k, v, divisor, usable) for v in values]
        for i, c in enumerate(codes):
            k.store(block + i * k.lanes, c.cast("trunc", I8))
        _store_sums(k, layout, block, codes)


def _scale(k: Lanes, values: list[Val]) -> tuple[Val, Val, Val]:
    """A block's float32 scale (not a number where the block isn't finite), what to divide by, and whether codes are not all zero."""
    sizes = [v.cast("bitcast", I32) & 0x7FFFFFFF for v in values]  # ordered as floats are, with infinities and NaN on top
    peak = sizes[0]
    for s in sizes[1:]:
        peak = k.max(peak, s)
    top = k.hmax(peak)
    finite = top < 0x7F800000
    scale = top.cast("bitcast", F32) / k.lift(127.0, F32)
    usable = k.select(finite, scale, k.lift(0.0, F32)) > 0.0
    return k.select(finite, scale, k.lift(float("nan"), F32)), k.select(usable, scale, k.lift(1.0, F32)), usable


def _round(k: Lanes, v: Val, divisor: Val, usable: Val) -> Val:
    codes = k.rounded(k.clamp(v / k.splat(divisor), -127.0, 127.0))
    return k.select(usable, codes, k.ints(0))


def _store_sums(k: Lanes, layout: Layout, block: Val, codes: list[Val]) -> None:
    """What dot products start from, and the sums, of every part."""
    registers = layout.width // k.lanes
    for part in range(layout.parts):
        if registers:
            total = k.fold(_added(codes[part * registers : (part + 1) * registers]), lambda a, b: a + b)
        else:  # several parts in a register
            inside = range(part * layout.width % k.lanes, part * layout.width % k.lanes + layout.width)
            one = codes[part * layout.width // k.lanes]
            total = k.fold(k.shuffle(one, one, inside), lambda a, b: a + b)
        if raised := layout.raised(k):
            k.store(block + STARTS + part * 4, total * -raised)
        if layout.offsets:
            k.store(block + _totals(k, layout) + part * 4, total)


def _added(values: list[Val]) -> Val:
    total = values[0]
    for v in values[1:]:
        total = total + v
    return total


@kernel("q w bias n blocks big small panels chunk room codes! -> y")
def linear_rounded(k: Lanes, q: Val, w: Val, bias: Val, n: Val, blocks: Val, big: Val, small: Val, panels: Val, chunk: Val, room: Val,
                   codes: Val, y: Val, *, kind: str, bias_dtype: str, rows: int, expand: bool = False) -> None:  # fmt: skip
    """y = activations w^T + bias, w in panels of a block format.

    expand: a panel's codes are first written out as bytes, into the thread's own `room` bytes of `codes`, for the many tiles to read."""
    layout = layout_of(kind)
    mine, run = codes + k.thread * room, run_bytes(k)

    def prepare(panel: Val) -> None:
        for b in k.range(blocks):
            block = w + (panel * blocks + b) * layout.block_bytes(k) + layout.head_bytes(k)
            for s in k.range(layout.subs):
                for g, j in product(range(GROUPS), (0, 1)):
                    target = mine + (b * layout.subs + s) * run + (g * 2 + j) * k.width
                    k.store(target, layout.read_quad(k, block + s * layout.sub_bytes(k), g, j))

    def tile(count: int, first: Val, panel: Val) -> list[Var]:
        rows = [first + r for r in range(count)]
        return rounded_sums(k, layout, q, rows, w + panel * blocks * layout.block_bytes(k), blocks, mine if expand else None)

    each_tile(k, rows, big, small, panels, chunk, tile, Output(y, n, bias, bias_dtype), prepare if expand else None)


def run_bytes(k: Lanes) -> int:
    """Bytes of 32 columns of a panel as codes of a byte."""
    return GROUPS * 2 * k.width


def rounded_sums(k: Lanes, layout: Layout, q: Val, rows: list[Val], panel: Val, blocks: Val, expanded: Val | None = None) -> list[Var]:
    """The products of rows of activation blocks with one panel (whose codes may have been written out as bytes): registers 0 and 1 of each
    row's outputs."""
    size = activation_bytes(k, layout)
    totals = [k.var(k.const(0.0)) for _ in range(2 * len(rows))]
    for b in k.range(blocks):
        at = [q + (row * blocks + b) * (layout.subs * size) for row in rows]
        block = panel + b * layout.block_bytes(k)
        heads = [layout.read_head(k, block, j) for j in (0, 1)]
        for s in k.range(layout.subs):
            sub = block + layout.head_bytes(k) + s * layout.sub_bytes(k)
            written = None if expanded is None else expanded + (b * layout.subs + s) * run_bytes(k)
            _sub(k, layout, totals, sub, heads, [a + s * size for a in at], written)
    return totals


def _sub(k: Lanes, layout: Layout, totals: list[Var], sub: Val, heads: list[list[Val]], at: list[Val], expanded: Val | None) -> None:
    """32 values of every row of a tile: d * (sum of scale * dot) - d * (sum of offset * total), added to the totals."""
    dots = [_dots(k, layout, sub, part, at, expanded) for part in range(layout.parts)]
    smalls = [layout.read_small(k, sub, j) for j in (0, 1)]
    parts = range(layout.parts)
    for j in (0, 1):
        scales = [layout.scale(heads[j], smalls[j], part) for part in parts]
        offsets = [layout.offset(heads[j], smalls[j], part) for part in parts] if layout.offsets else []
        for r, a in enumerate(at):
            d = k.splat(k.number(a + SCALE))
            block = d * _added([scales[part] * dots[part][2 * r + j].cast("sitofp", F32) for part in parts])
            if layout.offsets:
                sums = [k.load(a + _totals(k, layout) + part * 4, I32).cast("sitofp", F32) for part in parts]
                block = block - d * _added([offsets[part] * k.splat(sums[part]) for part in parts])
            totals[2 * r + j].set(totals[2 * r + j].get() + block)


def _dots(k: Lanes, layout: Layout, sub: Val, part: int, at: list[Val], expanded: Val | None) -> list[Val]:
    """Exact sums of q * code over one part, for the two registers of every row."""
    starts = [k.splat(k.load(a + STARTS + part * 4, I32)) if layout.raised(k) else k.ints(0) for a in at]
    dots = [k.var(k.ints(0)) for _ in at for _ in (0, 1)]
    for d, start in zip(dots, (s for s in starts for _ in (0, 1)), strict=True):
        d.set(start)
    dot = k.isa.dot_signed if layout.signed else k.isa.dot
    groups = GROUPS // layout.parts
    span = (part * groups, (part + 1) * groups)
    for g in range(*span) if k.isa.unrolled else k.range(*span):
        quads = [_quad(k, layout, sub, g, j, expanded) for j in (0, 1)]
        for r, a in enumerate(at):
            x = k.splat(k.load(a + g * 4, I32))
            for j in (0, 1):
                dots[2 * r + j].set(dot(k, dots[2 * r + j].get(), quads[j], x))
    return [d.get() for d in dots]


def _quad(k: Lanes, layout: Layout, sub: Val, g: int | Val, j: int, expanded: Val | None) -> Val:
    return layout.read_quad(k, sub, g, j) if expanded is None else k.load(expanded + (k.lift(g) * 2 + j) * k.width, k.VI)


def rounded(p: Portable, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product with rounded activations."""
    panels = panels_of(p, weight)
    layout = layout_of(panels.kind)
    x = float32_rows(p, x)
    out = empty(HOST, (*x.shape[:-1], panels.rows))
    if not out.size:
        return out
    bias, bias_dtype = readable_bias(p, bias)
    q = kept(x, (p, panels.kind), partial(round_all, p, x, panels.kind))
    t = tiling(p, rows_of(x), panels.rows)
    expand = layout.planes != (8,) and t.big + t.small >= MANY
    room = panels.columns * 2 * p.isa.lanes if expand else 0
    codes = empty(HOST, (p.team.threads * room,), np.uint8) if expand else None
    words: list[Word] = [q, panels.data, bias, panels.rows, panels.columns // layout.block, *t[1:], room, codes, out]
    p.launch(linear_rounded, words, x.size * panels.rows // 8, kind=panels.kind, bias_dtype=bias_dtype, rows=t.rows, expand=expand)
    return out


@cache
def _bytes_for(isa: Isa, kind: str) -> int:
    return activation_bytes(Lanes("sizes", isa), layout_of(kind))


def round_all(p: Portable, x: Tensor, kind: str) -> Tensor:
    """Contiguous x as activation blocks for a weight's layout."""
    blocks = x.size // 32
    q = empty(HOST, (blocks * _bytes_for(p.isa, kind),), np.uint8)
    p.launch(round_activations, [x, blocks, q], x.size * 4, kind=kind)
    return q


def _declines(x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    if dense_weight(weight):
        return f"weight is {weight.dtype}; the kernel reads quantised blocks"
    return not_float(x=x, bias=bias) or not_codes(weight)


def register(p: Portable) -> None:
    """linear_q8, and its preparation."""

    def prepare(weight: Tensor) -> None:
        if not dense_weight(weight) and not_codes(weight) is None:
            panels_of(p, weight)

    p.preparers["linear_q8"] = prepare

    @p.kernel(ops.linear_q8, declines=_declines)
    def linear_q8(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return rounded(p, x, weight, bias)
