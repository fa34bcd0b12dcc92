"""attention of encoders and vision towers: for each head and token a row of scores, its exponentials, their sum of values."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import contiguous, contiguous_integers, float32_rows, not_float
from vtcore.providers.portable.kernels.plain.kernel import not_int32, plain
from vtcore.providers.portable.kernels.plain.products import combine
from vtcore.providers.portable.kernels.plain.words import DOUBLE, INT, Array, array, claim, doubles, floats, helper, words
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty

INF = np.inf
LEAST = -87.0  # an exponential under it is none
SQUARED = 10  # how often the exponential of a 1024th is squared


@plain("q keys values starts tokens heads depth width count scale:d -> scores out")
def attended(table: int, thread: int, threads: int) -> None:
    """attention. q [T H D], keys [H D T], values [H T Dv], scores [threads T]."""
    w, scale = words(table), doubles(table)[9]
    tokens, heads, depth, width = w[4], w[5], w[6], w[7]
    starts = array(w[3], w[8], INT)
    task = claim(table)
    while task < tokens * heads:
        head, t = task // tokens, task % tokens
        begin, end = run_of(t, starts, tokens)
        out, scores = floats(w[11], t * heads + head, width), array(w[10] + 4 * thread * tokens, end - begin, np.float32)
        combine(floats(w[0], t * heads + head, depth), w[1] + 4 * (head * depth * tokens + begin), tokens, scores)
        total = weigh(scores, scale)
        combine(scores, w[2] + 4 * (head * tokens + begin) * width, width, out)
        for i in range(width):
            out[i] = out[i] / total
        task = claim(table)


@helper
def run_of(t: int, starts: Array, tokens: int) -> tuple[int, int]:
    """The run that a row belongs to; an empty one for a row of no run. Borders outside are the caller's error, and are moved inside."""
    for i in range(starts.size - 1):
        if starts[i] <= t < starts[i + 1]:
            return max(0, starts[i]), min(tokens, starts[i + 1])
    return 0, 0


@helper
def weigh(scores: Array, scale: float) -> float:
    """Turn scores into weights in place: the weights' sum, or 1 where they are all nothing."""
    top, total = -INF, 0.0
    for i in range(scores.size):
        scores[i] = scores[i] * scale
    for i in range(scores.size):
        top = max(top, DOUBLE(scores[i]))
    top = 0.0 if top == -INF else top
    for i in range(scores.size):
        scores[i] = exponential(scores[i] - top)
    for i in range(scores.size):
        total += scores[i]
    return 1.0 if total == 0 else total


@helper
def exponential(x: float) -> float:
    """exp of a number that is 0 or less, 1e-8 near: Taylor's sum to the sixth power, of x / 1024. NaN stays."""
    r = (LEAST if x < LEAST else x) / (1 << SQUARED)
    e = 1 + r * (1 + r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 6)))))
    for _ in range(SQUARED):
        e *= e
    return 0.0 if x < LEAST else e


def register(p: Portable) -> None:
    """attention."""

    @p.kernel(ops.attention, declines=lambda q, k, v, starts, scale: not_float(q=q, k=k, v=v) or not_int32(starts=starts))
    def attention(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, scale: float) -> Tensor:
        (tokens, heads, depth), width = q.shape, v.shape[2]
        out, scores = empty(HOST, (tokens, heads, width)), empty(HOST, (p.team.threads, tokens))
        keys, values = contiguous(p, k.transpose(1, 2, 0)), contiguous(p, v.transpose(1, 0, 2))
        sizes = [tokens, heads, depth, width, starts.size, scale]
        words: list[Word] = [float32_rows(p, q), keys, values, contiguous_integers(starts), *sizes, scores, out]
        p.launch(attended, words, 2 * tokens * out.size)
        return out
