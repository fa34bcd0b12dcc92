"""What hyper-connections make of each token's products: weights of streams, and sums of streams by them."""

from __future__ import annotations

from vtcore.providers.portable.kernels.plain.attention import exponential
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.words import Array, claim, doubles, floats, helper, words


@helper
def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    e = exponential(-abs(x))
    return 1 / (1 + e) if x >= 0 else e / (1 + e)


@helper
def balance(comb: Array, s: int, rounds: int, eps: float) -> None:
    """Rows by softmax, then columns, and (rounds - 1) times rows and columns, divided by their sums: [s * s] in place."""
    for i in range(s):
        row = comb[i * s : i * s + s]
        top = row[0]
        for j in range(s):
            top = max(top, row[j])
        for j in range(s):
            row[j] = exponential(row[j] - top)
        even(comb, i * s, 1, s, 0.0)
        for j in range(s):
            row[j] += eps
    for n in range(rounds):
        for i in range(s):
            if n > 0:
                even(comb, i * s, 1, s, eps)
        for j in range(s):
            even(comb, j, s, s, eps)


@helper
def even(x: Array, start: int, step: int, n: int, eps: float) -> None:
    """Divide n values, `step` apart, by their sum + eps."""
    total = eps
    for i in range(n):
        total += x[start + i * step]
    for i in range(n):
        x[start + i * step] = x[start + i * step] / total


@helper
def add_weighed(out: Array, x: Array, weight: float) -> None:
    """out += weight * x."""
    for i in range(out.size):
        out[i] += weight * x[i]


@plain("streams z base scales tokens s hidden rounds hc_eps:d -> h post comb")
def spread(table: int, thread: int, threads: int) -> None:
    """hyper_in."""
    w, eps = words(table), doubles(table)[8]
    tokens, s, hidden, rounds = w[4], w[5], w[6], w[7]
    base, scales = floats(w[2], 0, s * (s + 2)), floats(w[3], 0, 3)
    t = claim(table)
    while t < tokens:
        z, h, post, comb = floats(w[1], t, s * (s + 2)), floats(w[9], t, hidden), floats(w[10], t, s), floats(w[11], t, s * s)
        h[:] = 0
        for i in range(s):
            add_weighed(h, floats(w[0], t * s + i, hidden), sigmoid(z[i] * scales[0] + base[i]) + eps)
            post[i] = 2 * sigmoid(z[s + i] * scales[1] + base[s + i])
        for i in range(s * s):
            comb[i] = z[2 * s + i] * scales[2] + base[2 * s + i]
        balance(comb, s, rounds, eps)
        t = claim(table)


@plain("streams out post comb tokens s hidden -> y")
def joined(table: int, thread: int, threads: int) -> None:
    """hyper_out."""
    w = words(table)
    tokens, s, hidden = w[4], w[5], w[6]
    t = claim(table)
    while t < tokens:
        post, comb = floats(w[2], t, s), floats(w[3], t, s * s)
        for j in range(s):
            y = floats(w[7], t * s + j, hidden)
            y[:] = 0
            for i in range(s):
                add_weighed(y, floats(w[0], t * s + i, hidden), comb[i * s + j])
            add_weighed(y, floats(w[1], t, hidden), post[j])
        t = claim(table)


@plain("streams z base scales tokens s hidden hc_eps:d -> h")
def gathered(table: int, thread: int, threads: int) -> None:
    """hyper_head."""
    w, eps = words(table), doubles(table)[7]
    tokens, s, hidden = w[4], w[5], w[6]
    base, scales = floats(w[2], 0, s), floats(w[3], 0, 1)
    t = claim(table)
    while t < tokens:
        z, h = floats(w[1], t, s), floats(w[8], t, hidden)
        h[:] = 0
        for i in range(s):
            add_weighed(h, floats(w[0], t * s + i, hidden), sigmoid(z[i] * scales[0] + base[i]) + eps)
        t = claim(table)
