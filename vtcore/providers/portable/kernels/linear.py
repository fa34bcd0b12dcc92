"""linear: float32 activations by dense weights, or by the exact values of quantised ones.

Sums are fused multiply-adds in float32: 32 values (or those that share a scale) from zero, then those sums one after the other. One order
for each row, with an error that grows with K / 32."""

from __future__ import annotations

from functools import partial

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, kept, not_float, rows_of
from vtcore.providers.portable.formats.coded import layout_of
from vtcore.providers.portable.formats.layout import GROUPS, Layout
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.tiles import Output, each_tile, readable_bias, tiling
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.panels import Panels, dense_weight, not_codes, panels_of
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import I8, Val, Var, vec
from vtcore.quant.blocks import BlockFormat
from vtcore.tensor import Tensor, empty

RUN = 32  # values that a dense product sums from zero


@kernel("x w bias n columns big small panels chunk -> y")
def linear_dense(k: Lanes, x: Val, w: Val, bias: Val, n: Val, columns: Val, big: Val, small: Val, panels: Val, chunk: Val, y: Val,
                 *, dtype: str, bias_dtype: str, rows: int) -> None:  # fmt: skip
    """y = x w^T + bias, w in panels [columns][R]."""
    step = 2 * k.lanes * SIZES[dtype]

    def tile(count: int, first: Val, panel: Val) -> list[Var]:
        return dense_sums(k, [x + (first + r) * columns * 4 for r in range(count)], w + panel * columns * step, columns, dtype)

    each_tile(k, rows, big, small, panels, chunk, tile, Output(y, n, bias, bias_dtype))


def dense_sums(k: Lanes, at: list[Val], weights: Val, columns: Val, dtype: str) -> list[Var]:
    """The products of activation rows with one panel [columns][R]: registers 0 and 1 of each row's outputs."""
    totals, sums, size = _zeros(k, len(at)), _zeros(k, len(at)), SIZES[dtype]
    for start in k.range(0, columns, RUN):
        _clear(k, sums)
        for i in k.range(start, k.min(start + RUN, columns)):
            registers = [k.floats(weights + (i * 2 + j) * k.lanes * size, dtype) for j in (0, 1)]
            _multiply_add(k, sums, registers, [a + i * 4 for a in at])
        for total, s in zip(totals, sums, strict=True):
            total.set(total.get() + s.get())
    return totals


@kernel("x sums w bias n blocks big small panels chunk -> y")
def linear_blocks(k: Lanes, x: Val, sums: Val, w: Val, bias: Val, n: Val, blocks: Val, big: Val, small: Val, panels: Val, chunk: Val,
                  y: Val, *, kind: str, bias_dtype: str, rows: int) -> None:  # fmt: skip
    """y = x w^T + bias, w in panels of a block format; `sums` are x's sums over the values that share an offset (`part_sums`)."""
    layout = layout_of(kind)
    size = layout.block_bytes(k)

    def tile(count: int, first: Val, panel: Val) -> list[Var]:
        return block_sums(k, layout, x, sums, [first + r for r in range(count)], w + panel * blocks * size, blocks)

    each_tile(k, rows, big, small, panels, chunk, tile, Output(y, n, bias, bias_dtype))


def block_sums(k: Lanes, layout: Layout, x: Val, sums: Val, rows: list[Val], panel: Val, blocks: Val) -> list[Var]:
    """The products of rows of x with one panel of blocks: registers 0 and 1 of each row's outputs."""
    parts, totals = layout.subs * layout.parts, _zeros(k, len(rows))
    for b in k.range(blocks):
        at = [x + (row * blocks + b) * (layout.block * 4) for row in rows]
        offsets = [sums + (row * blocks + b) * (parts * 4) for row in rows]
        block = panel + b * layout.block_bytes(k)
        heads = [layout.read_head(k, block, j) for j in (0, 1)]
        for s in k.range(layout.subs):
            sub = block + layout.head_bytes(k) + s * layout.sub_bytes(k)
            _sub(k, layout, totals, sub, heads, [a + s * 128 for a in at], [o + s * (layout.parts * 4) for o in offsets])
    return totals


def _sub(k: Lanes, layout: Layout, totals: list[Var], sub: Val, heads: list[list[Val]], at: list[Val], offsets: list[Val]) -> None:
    """32 values of every row of a tile: sums of x * (code - zero) for each part, times its scale, less x's sum times its offset."""
    smalls = [layout.read_small(k, sub, j) for j in (0, 1)]
    groups = GROUPS // layout.parts
    for part in range(layout.parts):
        sums = _zeros(k, len(at))
        _clear(k, sums)
        for g in k.range(part * groups, (part + 1) * groups):
            quads = [_signed(k, layout, layout.read_quad(k, sub, g, j)) for j in (0, 1)]
            for i in range(4):
                _multiply_add(k, sums, [layout.number(_byte(q, i)) for q in quads], [a + g * 16 + i * 4 for a in at])
        for j in (0, 1):
            scale = layout.scale(heads[j], smalls[j], part)
            less = -layout.offset(heads[j], smalls[j], part) if layout.offsets else None
            for r in range(len(at)):
                total = k.fma(scale, sums[2 * r + j].get(), totals[2 * r + j].get())
                totals[2 * r + j].set(total if less is None else k.fma(less, k.splat(k.number(offsets[r] + part * 4)), total))


def _signed(k: Lanes, layout: Layout, quad: Val) -> Val:
    """Stored codes as signed bytes: what they were raised by taken away."""
    raised = layout.raised(k)
    bytes_ = vec(I8, 4 * k.lanes)
    return (quad.bitcast(bytes_) - raised).bitcast(k.VI) if raised else quad


def _byte(quad: Val, i: int) -> Val:
    """Byte i of every lane, signed."""
    return (quad if i == 3 else quad << (24 - 8 * i)).signed_shift(24)


def _zeros(k: Lanes, rows: int) -> list[Var]:
    return [k.var(k.const(0.0)) for _ in range(2 * rows)]


def _clear(k: Lanes, sums: list[Var]) -> None:
    for s in sums:
        s.set(k.const(0.0))


def _multiply_add(k: Lanes, sums: list[Var], weights: list[Val], at: list[Val]) -> None:
    """sums[row, j] += weights[j] * x[row]."""
    for r, address in enumerate(at):
        value = k.splat(k.number(address))
        for j in (0, 1):
            sums[2 * r + j].set(k.fma(weights[j], value, sums[2 * r + j].get()))


@kernel("x count -> sums")
def part_sums(k: Lanes, x: Val, count: Val, sums: Val, *, width: int) -> None:
    """The sums of every `width` neighbours, pairs first."""
    for i in k.share(count):
        v = k.floats(x + i * (width * 4), "float32", lanes=width)
        k.put_number(sums + i * 4, k.hsum(v))


def exact(p: Portable, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product with exact values."""
    panels = panels_of(p, weight)
    x = float32_rows(p, x)
    out = empty(HOST, (*x.shape[:-1], panels.rows))
    if not out.size:
        return out
    bias, bias_dtype = readable_bias(p, bias)
    t = tiling(p, rows_of(x), panels.rows)
    tail: list[Word] = [bias, panels.rows, steps_of(panels), t.big, t.small, t.panels, t.chunk, out]
    work = x.size * panels.rows // 8
    if not isinstance(weight.dtype, BlockFormat):
        p.launch(linear_dense, [x, panels.data, *tail], work, dtype=panels.kind, bias_dtype=bias_dtype, rows=t.rows)
    else:
        layout = layout_of(panels.kind)
        sums = kept(x, (p, layout.width), partial(sums_of, p, x, layout.width)) if layout.offsets else None
        p.launch(linear_blocks, [x, sums, panels.data, *tail], work, kind=panels.kind, bias_dtype=bias_dtype, rows=t.rows)
    return out


def steps_of(panels: Panels) -> int:
    """Columns of a dense weight, blocks of a quantised one."""
    return panels.columns if panels.kind in SIZES else panels.columns // layout_of(panels.kind).block


def sums_of(p: Portable, x: Tensor, width: int) -> Tensor:
    """The sums of contiguous x over each `width` neighbours."""
    sums = empty(HOST, (x.size // width,))
    p.launch(part_sums, [x, sums.size, sums], x.size, width=width)
    return sums


def _declines(x: Tensor, weight: Tensor, bias: Tensor | None) -> str | None:
    return not_float(x=x, bias=bias) or (None if dense_weight(weight) else not_codes(weight))


def register(p: Portable) -> None:
    """linear, and its preparation."""
    p.preparers["linear"] = lambda weight: _prepare(p, weight)

    @p.kernel(ops.linear, declines=_declines)
    def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return exact(p, x, weight, bias)


def _prepare(p: Portable, weight: Tensor) -> None:
    if dense_weight(weight) or not_codes(weight) is None:
        panels_of(p, weight)
