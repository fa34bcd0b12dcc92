"""What the matrix products share: tiles of activation rows by panels of weight rows, and how they are shared out and stored.

A product of M rows is `big` tiles of r rows and `small` ones of r - 1, r as few as fit the registers: so six variants do for every M. The
order of additions for one row depends neither on r nor on M: a row's result is the same beside any neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from vtcore.providers.portable.arrays import dtype_of, float32_rows
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.panels import panel_count
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val, Var
from vtcore.tensor import Tensor

Tile = Callable[[int, Val, Val], Sequence[Var]]  # (rows, first row, panel) -> sums, registers 0 and 1 of each row's outputs


class Tiling(NamedTuple):
    """How M rows are cut: `big` tiles of `rows`, `small` of one row less; panels are claimed `chunk` at a time."""

    rows: int
    big: int
    small: int
    panels: int
    chunk: int


def tiling(p: Portable, m: int, n: int) -> Tiling:
    """For M rows by N outputs."""
    tiles = -(-m // p.isa.rows)
    rows = -(-m // tiles)
    big = m - tiles * (rows - 1)
    panels = panel_count(p, n)
    return Tiling(rows, big, tiles - big, panels, max(1, min(16, panels // (p.team.threads * 4))))


def readable_bias(p: Portable, bias: Tensor | None) -> tuple[Tensor | None, str]:
    """A bias with its values side by side, and its dtype."""
    if bias is None:
        return None, "float32"
    bias = bias if bias.contiguous else float32_rows(p, bias)
    return bias, dtype_of(bias)


def each_tile(k: Lanes, rows: int, big: Val, small: Val, panels: Val, chunk: Val, tile: Tile, out: Output,
              prepare: Callable[[Val], None] | None = None) -> None:  # fmt: skip
    """Claim panels, and do every tile of each, after what is to be done once for a panel."""
    for panel in k.claim(panels, chunk):
        if prepare is not None:
            prepare(panel)
        for t in k.range(big):
            out.store(k, tile(rows, t * rows, panel), [t * rows + r for r in range(rows)], panel)
        if rows > 1:
            for t in k.range(small):
                first = big * rows + t * (rows - 1)
                out.store(k, tile(rows - 1, first, panel), [first + r for r in range(rows - 1)], panel)


class Output(NamedTuple):
    """Where results go: y [M, n] float32, and a bias [n] (address 0: none)."""

    y: Val
    n: Val
    bias: Val
    bias_dtype: str

    def store(self, k: Lanes, sums: Sequence[Var], rows: Sequence[Val], panel: Val) -> None:
        """Store a tile's sums in these rows of y; of the last panel only the columns that exist."""
        column = panel * (2 * k.lanes)
        with k.either(column + 2 * k.lanes <= self.n) as (whole, part):
            with whole:
                self._store(k, sums, rows, column, [None, None])
            with part:
                self._store(k, sums, rows, column, [k.clamp(self.n - column - j * k.lanes, 0, k.lanes) for j in (0, 1)])

    def _store(self, k: Lanes, sums: Sequence[Var], rows: Sequence[Val], column: Val, counts: Sequence[Val | None]) -> None:
        for j, count in enumerate(counts):
            place = column + j * k.lanes
            bias = k.var(k.const(0.0))
            bias.set(0.0)
            with k.when(self.bias > 0):
                bias.set(k.floats(self.bias + place * SIZES[self.bias_dtype], self.bias_dtype, count))
            for r, row in enumerate(rows):
                total = sums[2 * r + j].get()
                address = self.y + (row * self.n + place) * 4
                k.put(address, total + bias.get(), "float32", count)
