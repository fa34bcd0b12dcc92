"""Rows taken from a table, and rows put in their place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow
from vtcore.ops.inputs import blocks, cut, extreme, ints, normal, ones, sixteen
from vtcore.ops.rules import inside
from vtcore.quant.blocks import FORMATS, as_float32

VALUES = Tolerance({"float32": 1e-6}, "values are copied, or one float32 operation away from what is stored")


def _embedding_samples(rng: np.random.Generator) -> Iterator[Call]:
    table = normal(rng, 11, 48)
    for shape in ((1,), (7,), (2, 3), (0,), ()):
        yield {"table": table, "ids": np.array(rng.integers(0, 11, shape), np.int32)}
    yield {"table": extreme(rng, 4, 33), "ids": ints(3, 0, 0, 3)}
    yield {"table": cut(table), "ids": ints(10, 0)}
    yield from sixteen({"table": table, "ids": ints(1, 2)})
    for fmt in FORMATS.values():
        yield {"table": blocks(rng, 5, 2 * fmt.block, fmt), "ids": ints(4, 0, 0)}


def _embedding_errors() -> Iterator[tuple[Call, str]]:
    yield {"table": ones(4, 8), "ids": ints(0, 4)}, "ids holds 4; it must be in [0, 4)"
    yield {"table": ones(4, 8), "ids": ints(-1)}, "ids holds -1"
    yield {"table": ones(4, 8), "ids": ones(2)}, "ids is float32; it must be an integer type"
    yield {"table": ones(8), "ids": ints(0)}, "table has shape [8]"


@op(
    "table[N H]:w, ids[...]:i -> [... H]",
    samples=_embedding_samples,
    errors=_embedding_errors,
    tolerance=VALUES,
    check=lambda table, ids: inside("ids", ids, 0, table.shape[0]),
)
def embedding(table: Array, ids: Array) -> Array:
    """table[ids]: rows of a dense or quantised table [N H], as float32. ids [...] in [0, N)."""
    return narrow(as_float32(table[ids]))


def _place_samples(rng: np.random.Generator) -> Iterator[Call]:
    x = normal(rng, 6, 33)
    for add in (False, True):
        yield {"x": x, "rows": ints(4, 0, 5), "values": normal(rng, 3, 33), "add": add}
        yield {"x": x, "rows": ints(2, -1, 2, -1), "values": normal(rng, 4, 33), "add": add}
    yield {"x": x, "rows": ints(), "values": normal(rng, 0, 33)}
    for t in (0, 1):
        yield {"x": normal(rng, t, 8), "rows": ints(t - 1), "values": normal(rng, 1, 8)}
    yield {"x": cut(x), "rows": ints(1), "values": cut(normal(rng, 1, 33))}
    yield from sixteen({"x": x, "rows": ints(1, 3), "values": normal(rng, 2, 33), "add": True})


def _place_errors() -> Iterator[tuple[Call, str]]:
    good = {"x": ones(4, 8), "rows": ints(0, 1), "values": ones(2, 8)}
    yield good | {"rows": ints(0, 4)}, "rows holds 4; it must be in [-1, 4)"
    yield good | {"rows": ints(-2, 0)}, "rows holds -2"
    yield good | {"rows": ints(0)}, "axis N of values"
    yield good | {"add": 1}, "add is int 1; it must be a Python bool"


@op(
    "x[T H], rows[N]:i, values[N H] -> [T H]",
    samples=_place_samples,
    errors=_place_errors,
    tolerance=VALUES,
    check=lambda x, rows, **_: inside("rows", rows, -1, x.shape[0]),
)
def place(x: Array, rows: Array, values: Array, add: bool = False) -> Array:
    """A copy of x with values[n] put in row rows[n], or added to it; -1 is nowhere. Of a row that is named twice the last counts, or both.

    x [T H], rows [N] in [-1, T), values [N H]. Where an image's features stand among a prompt's embeddings."""
    out, values = narrow(x), narrow(values)
    for row, value in zip(rows, values, strict=True):
        if row >= 0:
            out[row] = out[row] + value if add else value
    return out


def _look_samples(rng: np.random.Generator) -> Iterator[Call]:
    for n, k, t in ((7, 2, 1), (300, 6, 5), (4, 1, 0), (1, 8, 3)):
        yield {"table": rng.integers(-9, 99, (n, k)).astype(np.int32), "ids": rng.integers(0, n, t).astype(np.int32)}
    yield {"table": np.arange(24, dtype=np.int32).reshape(4, 6)[:, ::2], "ids": ints(3, 3, 0)}


def _look_errors() -> Iterator[tuple[Call, str]]:
    good: Call = {"table": np.zeros((4, 2), np.int32), "ids": ints(0, 3)}
    yield good | {"ids": ints(4)}, "ids holds 4; it must be in [0, 4)"
    yield good | {"table": ones(4, 2)}, "table is float32"


@op(
    "table[N K]:i, ids[T]:i -> [T K]:i",
    samples=_look_samples,
    errors=_look_errors,
    check=lambda table, ids: inside("ids", ids, 0, table.shape[0]),
)
def look_up(table: Array, ids: Array) -> Array:
    """Rows of a table of integers: table [N K], ids [T], result [T K]. The experts of a token by its number (DeepSeek 4, 2026)."""
    return np.array(table[ids], np.int32, order="C")
