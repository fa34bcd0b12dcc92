"""place: rows put in, or added to, others; look_up: rows of integers."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import contiguous_integers, float32_rows, not_float
from vtcore.providers.portable.kernels.plain.kernel import not_int32, plain
from vtcore.providers.portable.kernels.plain.words import INT, array, claim, copy, floats, words
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty

ALONE = 0  # work of a launch that one thread does: rows that are named twice are written in order


@plain("x rows values n width height add -> out")
def placed(table: int, thread: int, threads: int) -> None:
    """place, on one thread."""
    w = words(table)
    n, width, height, add = w[3], w[4], w[5], w[6]
    whole, rows = floats(w[7], 0, height * width), array(w[1], n, INT)
    copy(floats(w[0], 0, height * width), whole)
    for i in range(n):
        if 0 <= rows[i] < height:
            out, value = floats(w[7], rows[i], width), floats(w[2], i, width)
            for j in range(width):
                out[j] = out[j] + value[j] if add != 0 else value[j]


@plain("source ids n width height -> out")
def looked_up(table: int, thread: int, threads: int) -> None:
    """look_up. Numbers outside are the caller's error; they give what was there."""
    w = words(table)
    n, width, height = w[2], w[3], w[4]
    ids = array(w[1], n, INT)
    i = claim(table)
    while i < n:
        if 0 <= ids[i] < height:
            copy(array(w[0] + 4 * ids[i] * width, width, INT), array(w[5] + 4 * i * width, width, INT))
        i = claim(table)


def register(p: Portable) -> None:
    """place, look_up."""

    @p.kernel(ops.look_up, declines=lambda table, ids: not_int32(table=table, ids=ids))
    def look_up(table: Tensor, ids: Tensor) -> Tensor:
        n, (height, width) = ids.shape[0], table.shape
        out = empty(HOST, (n, width), INT)
        p.launch(looked_up, [contiguous_integers(table), contiguous_integers(ids), n, width, height, out], out.size)
        return out

    @p.kernel(ops.place, declines=lambda x, rows, values, **_: not_float(x=x, values=values) or not_int32(rows=rows))
    def place(x: Tensor, rows: Tensor, values: Tensor, add: bool) -> Tensor:
        n, (height, width), out = rows.shape[0], x.shape, empty(HOST, x.shape)
        table: list[Word] = [float32_rows(p, x), contiguous_integers(rows), float32_rows(p, values), n, width, height, int(add), out]
        p.launch(placed, table, ALONE)
        return out
