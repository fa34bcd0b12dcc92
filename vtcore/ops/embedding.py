"""Rows taken from a table, and rows put in their place."""

from __future__ import annotations

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow
from vtcore.ops.inputs import nothing, nothing_wrong
from vtcore.quant.blocks import as_float32


def _ids_in_range(table: Array, ids: Array) -> str | None:
    return outside("ids", ids, 0, table.shape[0])


def outside(name: str, index: Array, low: int, high: int) -> str | None:
    """What is wrong with an index array whose values the host has: one that is not in [low, high)."""
    if not isinstance(index, np.ndarray) or not index.size or (index.min() >= low and index.max() < high):
        return None
    wrong = index[(index < low) | (index >= high)].flat[0]
    return f"{name} holds {wrong}; it must be in [{low}, {high})"


@op("table[N H]:w, ids[...]:i -> [... H]", samples=nothing, errors=nothing_wrong, check=_ids_in_range)
def embedding(table: Array, ids: Array) -> Array:
    """table[ids]: rows of a dense or quantised table [N H], as float32. ids [...] in [0, N)."""
    return narrow(as_float32(table[ids]))


def _rows_in_range(x: Array, rows: Array, **_: object) -> str | None:
    return outside("rows", rows, -1, x.shape[0])


@op("x[T H], rows[N]:i, values[N H] -> [T H]", samples=nothing, errors=nothing_wrong, check=_rows_in_range)
def place(x: Array, rows: Array, values: Array, add: bool = False) -> Array:
    """A copy of x with values[n] put in row rows[n], or added to it; -1 is nowhere. Of a row that is named twice the last counts, or both.

    x [T H], rows [N] in [-1, T), values [N H]. Where an image's features stand among a prompt's embeddings."""
    out, values = narrow(x), narrow(values)
    for row, value in zip(rows, values, strict=True):
        if row >= 0:
            out[row] = out[row] + value if add else value
    return out
