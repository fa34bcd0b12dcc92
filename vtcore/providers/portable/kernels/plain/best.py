"""The second half of choose_entries: of each token's scores the best."""

from __future__ import annotations

from vtcore.providers.portable.kernels.plain.heap import keep_best
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.words import FLOAT, INT, Array, array, claim, floats, helper, words


@plain("scores starts lengths first tokens requests width every k -> values out")
def chosen(table: int, thread: int, threads: int) -> None:
    """Of row t - first of the scores [tokens width] the k best that are complete, in row t of out [T k]; values [T k] is for work."""
    w = words(table)
    first, tokens, requests, width, every, k = w[3], w[4], w[5], w[6], w[7], w[8]
    starts, lengths = array(w[1], requests + 1, INT), array(w[2], requests, INT)
    row = claim(table)
    while row < tokens:
        t = first + row
        ids = array(w[10] + 4 * t * k, k, INT)
        ids[:] = -1
        ready = min(width, complete(t, starts, lengths, every))
        if ready > 0:
            keep_best(array(w[0] + 4 * row * width, ready, FLOAT), floats(w[9], t, k)[: min(k, ready)], ids[: min(k, ready)])
        row = claim(table)


@helper
def complete(t: int, starts: Array, lengths: Array, every: int) -> int:
    """How many entries a row may choose from; 0 for a row of no request."""
    for r in range(lengths.size):
        if starts[r] <= t < starts[r + 1]:
            return int(lengths[r] - starts[r + 1] + t + 1) // every
    return 0
