"""A row by a matrix: what attention is made of."""

from __future__ import annotations

from vtcore.providers.portable.kernels.plain.words import FLOAT, Array, array, helper


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
