"""top_k; and top_k with top_p, whose probabilities NumPy computes, since their last bits decide what is kept."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.ops.exact import shares, wide
from vtcore.providers.portable.arrays import contiguous, contiguous_integers, float32_rows, not_float, rows_of
from vtcore.providers.portable.kernels.plain.digits import BUCKETS, TOP, by_digit, key, kth_key
from vtcore.providers.portable.kernels.plain.heap import keep_best
from vtcore.providers.portable.kernels.plain.kernel import not_int32, plain, recording
from vtcore.providers.portable.kernels.plain.words import DOUBLE, FLOAT, INT, LONG, UINT, Array, array, claim, copy, floats, helper, words
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty, of

INF = np.inf
GROUP = 8  # rows whose probabilities are in memory at a time


@plain("x k width rows -> values ids")
def best(table: int, thread: int, threads: int) -> None:
    """top_k."""
    w = words(table)
    k, width, rows = w[1], w[2], w[3]
    r = claim(table)
    while r < rows:
        keep_best(floats(w[0], r, width), floats(w[4], r, k), array(w[5] + 4 * r * k, k, INT))
        r = claim(table)


@plain("logits k width rows -> counts out")
def cut_to_k(table: int, thread: int, threads: int) -> None:
    """A copy of the logits in which what is under a row's k-th largest is -inf."""
    w = words(table)
    k, width, rows = array(w[1], w[3], INT), w[2], w[3]
    r = claim(table)
    while r < rows:
        out = floats(w[5], r, width)
        copy(floats(w[0], r, width), out)
        if 0 < k[r] < width:
            keep_k(out, array(w[5] + 4 * r * width, width, UINT), k[r], array(w[4] + 8 * r * BUCKETS, BUCKETS, LONG))
        r = claim(table)


@helper
def keep_k(out: Array, bits: Array, k: int, counts: Array) -> None:
    """One row, also seen as bits. Where its k-th largest is not a number, nothing is under it."""
    edge = kth_key(bits, k, counts)
    if edge != TOP:
        for i in range(out.size):
            if key(bits[i]) < edge:
                out[i] = -INF


@plain("chosen shares p width n out! -> ids spare counts")
def cut_to_p(table: int, thread: int, threads: int) -> None:
    """Of n chosen rows of logits, keep the best that together reach probability p; shares [n V] and p [n] are float64."""
    w = words(table)
    width, n = w[3], w[4]
    j = claim(table)
    while j < n:
        at = 4 * array(w[0], n, INT)[j] * width
        out, bits = array(w[5] + at, width, FLOAT), array(w[5] + at, width, UINT)
        probability, enough = array(w[1] + 8 * j * width, width, DOUBLE), array(w[2], n, DOUBLE)[j]
        ids, spare = array(w[6] + 4 * j * width, width, INT), array(w[7] + 4 * j * width, width, INT)
        keep_p(out, bits, probability, enough, ids, spare, array(w[8] + 8 * j * BUCKETS, BUCKETS, LONG))
        j = claim(table)


@helper
def keep_p(out: Array, bits: Array, share: Array, enough: float, ids: Array, spare: Array, counts: Array) -> None:
    """One row. Where a probability is not a number, all are, and everything is kept.

    All tokens of less than (1 - enough) / 2V together have less than half of what is to go: none of them is kept."""
    if share.size == 0 or share[0] != share[0]:
        return
    least, n = (1 - enough) / (2 * share.size), 0
    for i in range(share.size):
        if share[i] >= least:
            ids[n] = i
            n += 1
        else:
            out[i] = -INF
    by_digit(bits, ids, n, 0, counts, spare)
    by_digit(bits, spare, n, 1, counts, ids)
    by_digit(bits, ids, n, 2, counts, spare)
    total = DOUBLE(0)
    for j in range(n):
        i = spare[j]
        total += share[i]
        if j > 0 and total - share[i] >= enough:
            out[i] = -INF


def best_k(provider: Portable, logits: Tensor, k: Tensor) -> Tensor:
    """A copy in which each row has its k best."""
    rows, width = logits.shape
    if not ((k.bare() > 0) & (k.bare() < width)).any():
        return contiguous(provider, logits)
    out, counts = empty(HOST, logits.shape), empty(HOST, (rows, BUCKETS), np.int64)
    provider.launch(cut_to_k, [float32_rows(provider, logits), contiguous_integers(k), width, rows, counts, out], 3 * out.size)
    return out


def best_p(provider: Portable, out: Tensor, chosen: Array, enough: Array) -> None:
    """Cut some rows, in place, to their best that together reach probability `enough` [n] float64."""
    n, width, rows = len(chosen), out.shape[1], out.bare()
    probability = np.empty((n, width))
    with np.errstate(invalid="ignore"):
        for i, r in enumerate(chosen):
            probability[i] = shares(wide(rows[r]))
    ids, spare, counts = empty(HOST, (n, width), np.int32), empty(HOST, (n, width), np.int32), empty(HOST, (n, BUCKETS), np.int64)
    words: list[Word] = [of(chosen), of(probability), of(enough), width, n, out, ids, spare, counts]
    provider.launch(cut_to_p, words, 8 * probability.size)


def register(provider: Portable) -> None:
    """top_k, apply_top_k_top_p."""

    def too_many(x: Tensor, k: int) -> str | None:
        return not_float(x=x) or (None if 0 < k <= x.shape[-1] else f"k is {k}, and a row has {x.shape[-1]} values")

    @provider.kernel(ops.top_k, declines=too_many)
    def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        shape = (*x.shape[:-1], k)
        x, values, ids = float32_rows(provider, x), empty(HOST, shape), empty(HOST, shape, np.int32)
        provider.launch(best, [x, k, x.shape[-1], rows_of(x), values, ids], 2 * x.size)
        return values, ids

    def unreadable(logits: Tensor, k: Tensor, p: Tensor) -> str | None:
        return not_float(logits=logits, p=p) or not_int32(k=k) or recording(provider)

    @provider.kernel(ops.apply_top_k_top_p, declines=unreadable)
    def apply_top_k_top_p(logits: Tensor, k: Tensor, p: Tensor) -> Tensor:
        out = best_k(provider, logits, k)
        enough = p.bare().astype(np.float64)
        chosen = np.flatnonzero(enough < 1).astype(np.int32)
        for i in range(0, len(chosen), GROUP):
            some = chosen[i : i + GROUP]
            best_p(provider, out, some, enough[some])
        return out
