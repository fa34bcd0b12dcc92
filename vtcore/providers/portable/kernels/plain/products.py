"""A row by a matrix: what per_head and attention are made of; and per_head."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.words import FLOAT, Array, array, claim, floats, helper, words
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty


@helper
def combine(x: Array, matrix: int, step: int, out: Array) -> None:
    """out [B] = the sum of x[a] * row a [B] of a float32 matrix at an address, whose rows are `step` floats apart; four at a time."""
    out[:] = 0
    a, width = 0, out.size
    while a + 4 <= x.size:
        first, second = array(matrix + 4 * a * step, width, FLOAT), array(matrix + 4 * (a + 1) * step, width, FLOAT)
        third, fourth = array(matrix + 4 * (a + 2) * step, width, FLOAT), array(matrix + 4 * (a + 3) * step, width, FLOAT)
        p, q, r, s = x[a], x[a + 1], x[a + 2], x[a + 3]
        for b in range(width):
            out[b] += p * first[b] + q * second[b] + (r * third[b] + s * fourth[b])
        a += 4
    while a < x.size:
        row, p = array(matrix + 4 * a * step, width, FLOAT), x[a]
        for b in range(width):
            out[b] += p * row[b]
        a += 1


@plain("x weight tokens heads a b -> out")
def heads_apart(table: int, thread: int, threads: int) -> None:
    """per_head, a head's tokens one after the other, so that its matrix stays in the cache."""
    w = words(table)
    tokens, heads, a, b = w[2], w[3], w[4], w[5]
    task = claim(table)
    while task < tokens * heads:
        head, row = task // tokens, task % tokens * heads + task // tokens
        combine(floats(w[0], row, a), w[1] + 4 * head * a * b, b, floats(w[6], row, b))
        task = claim(table)


def register(p: Portable) -> None:
    """per_head."""

    @p.kernel(ops.per_head, declines=lambda x, weight: not_float(x=x, weight=weight))
    def per_head(x: Tensor, weight: Tensor) -> Tensor:
        (tokens, heads, a), b = x.shape, weight.shape[2]
        out = empty(HOST, (tokens, heads, b))
        p.launch(heads_apart, [float32_rows(p, x), float32_rows(p, weight), tokens, heads, a, b, out], 2 * x.size * b)
        return out
