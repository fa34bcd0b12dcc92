"""top_k, where it takes many."""

from __future__ import annotations

from vtcore.providers.portable.kernels.plain.heap import keep_best
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.words import INT, array, claim, floats, words


@plain("x k width rows -> values ids")
def best(table: int, thread: int, threads: int) -> None:
    """top_k, for any k."""
    w = words(table)
    k, width, rows = w[1], w[2], w[3]
    r = claim(table)
    while r < rows:
        keep_best(floats(w[0], r, width), floats(w[4], r, k), array(w[5] + 4 * r * k, k, INT))
        r = claim(table)
