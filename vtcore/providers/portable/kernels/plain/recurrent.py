"""causal_conv and gated_delta."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.kernels.plain.attention import exponential
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.walks import BLOCK, border, declines, rows, silu, walked
from vtcore.providers.portable.kernels.plain.words import FLOAT, INT, Array, array, claim, copy, floats, helper, words
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty


@plain("x weight bias source slots starts requests tokens channels width activate -> past state out")
def convolved(table: int, thread: int, threads: int) -> None:
    """causal_conv. weight [width channels], past [threads, width - 1, BLOCK]: what came before the request at hand."""
    w = words(table)
    channels, tokens, requests, width = w[8], w[7], w[6], w[9]
    source, slots, starts = array(w[3], requests, INT), array(w[4], tokens, INT), array(w[5], requests + 1, INT)
    past = w[11] + 4 * thread * (width - 1) * BLOCK
    task = claim(table)
    while task * BLOCK < channels:
        at = 4 * task * BLOCK
        n = min(BLOCK, channels - task * BLOCK)
        bury(w[13] + at, channels, tokens, starts, n)
        for r in range(requests):
            first = border(starts, r, tokens)
            for j in range(width - 1):
                copy(array(w[12] + 4 * (source[r] * (width - 1) + j) * channels + at, n, FLOAT), array(past + 4 * j * BLOCK, n, FLOAT))
            for t in range(first, border(starts, r + 1, tokens)):
                out = array(w[13] + 4 * t * channels + at, n, FLOAT)
                out[:] = 0
                for j in range(width):
                    row = array(before(w[0] + at, channels, past, width - 1, first, t - width + 1 + j), n, FLOAT)
                    tap = array(w[1] + 4 * j * channels + at, n, FLOAT)
                    for i in range(n):
                        out[i] += tap[i] * row[i]
                finish(out, w[2] + at if w[2] != 0 else 0, w[10])
                if slots[t] >= 0:
                    for j in range(width - 1):
                        row = array(before(w[0] + at, channels, past, width - 1, first, t - width + 2 + j), n, FLOAT)
                        copy(row, array(w[12] + 4 * (slots[t] * (width - 1) + j) * channels + at, n, FLOAT))
        task = claim(table)


@helper
def bury(out: int, step: int, tokens: int, starts: Array, width: int) -> None:
    """Zeros in the rows of no request."""
    for t in range(tokens):
        if t < starts[0] or t >= starts[starts.size - 1]:
            array(out + 4 * t * step, width, FLOAT)[:] = 0


@helper
def before(x: int, channels: int, past: int, kept: int, first: int, t: int) -> int:
    """The address of a row: of x from the request's first token on, else of what was kept from before."""
    return x + 4 * t * channels if t >= first else past + 4 * (t - first + kept) * BLOCK


@helper
def finish(out: Array, bias: int, activate: int) -> None:
    """Add the bias, and apply silu."""
    if bias != 0:
        added = array(bias, out.size, FLOAT)
        for i in range(out.size):
            out[i] += added[i]
    if activate != 0:
        for i in range(out.size):
            out[i] = silu(out[i])


@plain("q k v decay beta source slots starts requests tokens few heads depth width numbers turns -> scratch state out")
def delta_net(table: int, thread: int, threads: int) -> None:
    """gated_delta. scratch [threads, depth + 1, width]: the state of the head at hand, and what is added to it."""
    w = words(table)
    requests, tokens, few, heads = w[8], w[9], w[10], w[11]
    depth, width, numbers = w[12], w[13], w[14]
    source, slots, starts = array(w[5], requests, INT), array(w[6], tokens, INT), array(w[7], requests + 1, INT)
    whole = depth * width
    now = array(w[16] + 4 * thread * (whole + width), whole, FLOAT)
    change = array(w[16] + 4 * (thread * (whole + width) + whole), width, FLOAT)
    h = claim(table)
    while h < heads:
        bury(w[18] + 4 * h * width, heads * width, tokens, starts, width)
        g = h % few if w[15] != 0 else h // (heads // few)
        for r in range(requests):
            copy(floats(w[17], source[r] * heads + h, whole), now)
            for t in range(border(starts, r, tokens), border(starts, r + 1, tokens)):
                key, query = floats(w[1], t * few + g, depth), floats(w[0], t * few + g, depth)
                forget(now, floats(w[3], t * heads + h, numbers), key, change)
                beta, value = floats(w[4], t * heads + h, 1)[0], floats(w[2], t * heads + h, width)
                for j in range(width):
                    change[j] = beta * (value[j] - change[j])
                remember(now, key, query, change, floats(w[18], t * heads + h, width))
                if slots[t] >= 0:
                    copy(now, floats(w[17], slots[t] * heads + h, whole))
        h = claim(table)


@helper
def forget(state: Array, decay: Array, key: Array, seen: Array) -> None:
    """state [D V] times exp(decay), and what it then holds under a key: seen [V]."""
    width = seen.size
    seen[:] = 0
    kept = FLOAT(exponential(decay[0]))
    for d in range(key.size):
        if decay.size > 1:
            kept = FLOAT(exponential(decay[d]))
        row, k = state[d * width : (d + 1) * width], key[d]
        for j in range(width):
            row[j] = row[j] * kept
            seen[j] += k * row[j]


@helper
def remember(state: Array, key: Array, query: Array, change: Array, out: Array) -> None:
    """state [D V] += key change^T, and what it then holds under a query: out [V]."""
    width = out.size
    out[:] = 0
    for d in range(key.size):
        row, k, q = state[d * width : (d + 1) * width], key[d], query[d]
        for j in range(width):
            row[j] = row[j] + k * change[j]
            out[j] += q * row[j]


def register(p: Portable) -> None:
    """causal_conv and gated_delta."""

    @p.kernel(ops.causal_conv, declines=lambda activate, **call: declines(**call))
    def causal_conv(
        x: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor, source: Tensor, slots: Tensor, starts: Tensor, activate: bool
    ) -> Tensor:
        (tokens, channels), width, out = x.shape, weight.shape[0], empty(HOST, x.shape)
        past = empty(HOST, (p.team.threads, width - 1, BLOCK))
        sizes = [tokens, channels, width, int(activate)]
        table: list[Word] = [*rows(p, x, weight, bias), *walked(source, slots, starts), *sizes, past, state, out]
        p.launch(convolved, table, 2 * width * out.size)
        return out

    @p.kernel(ops.gated_delta, declines=lambda turns, **call: declines(**call))
    def gated_delta(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        decay: Tensor,
        beta: Tensor,
        state: Tensor,
        source: Tensor,
        slots: Tensor,
        starts: Tensor,
        turns: bool,
    ) -> Tensor:
        (tokens, few, depth), (_, heads, width), out = q.shape, v.shape, empty(HOST, v.shape)
        scratch = empty(HOST, (p.team.threads, depth + 1, width))
        sizes = [tokens, few, heads, depth, width, decay.shape[2], int(turns)]
        table: list[Word] = [*rows(p, q, k, v, decay, beta), *walked(source, slots, starts), *sizes, scratch, state, out]
        p.launch(delta_net, table, 8 * depth * out.size)
        return out
