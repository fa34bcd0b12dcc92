"""selective_scan and channel_scan; and time_step, which says how long their steps are."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, not_float, rows_of
from vtcore.providers.portable.kernels.plain.attention import exponential
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.recurrent import bury
from vtcore.providers.portable.kernels.plain.walks import BLOCK, border, declines, rows, softplus, walked
from vtcore.providers.portable.kernels.plain.words import FLOAT, INT, Array, array, claim, copy, doubles, floats, helper, words
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty


@plain("x dt a b c d source slots starts requests tokens heads width groups size -> scratch state out")
def scanned(table: int, thread: int, threads: int) -> None:
    """selective_scan. scratch [threads, size + 1, width]: the state of the head at hand, and dt x."""
    w = words(table)
    requests, tokens, heads, width = w[9], w[10], w[11], w[12]
    groups, size = w[13], w[14]
    source, slots, starts = array(w[6], requests, INT), array(w[7], tokens, INT), array(w[8], requests + 1, INT)
    whole = size * width
    now = array(w[15] + 4 * thread * (whole + width), whole, FLOAT)
    given = array(w[15] + 4 * (thread * (whole + width) + whole), width, FLOAT)
    h = claim(table)
    while h < heads:
        bury(w[17] + 4 * h * width, heads * width, tokens, starts, width)
        g, rate = h // (heads // groups), array(w[2], heads, FLOAT)[h]
        skip = array(w[5], heads, FLOAT)[h] if w[5] != 0 else FLOAT(0)
        for r in range(requests):
            copy(floats(w[16], source[r] * heads + h, whole), now)
            for t in range(border(starts, r, tokens), border(starts, r + 1, tokens)):
                step = floats(w[1], t * heads + h, 1)[0] if w[1] != 0 else FLOAT(1)
                x, out = floats(w[0], t * heads + h, width), floats(w[17], t * heads + h, width)
                for i in range(width):
                    given[i] = step * x[i]
                kept = FLOAT(exponential(np.float64(step) * rate))
                advance(now, kept, floats(w[3], t * groups + g, size), floats(w[4], t * groups + g, size), given, out)
                for i in range(width):
                    out[i] += skip * x[i]
                if slots[t] >= 0:
                    copy(now, floats(w[16], slots[t] * heads + h, whole))
        h = claim(table)


@helper
def advance(state: Array, kept: np.float32, b: Array, c: Array, given: Array, out: Array) -> None:
    """state [S P] = kept state + b given^T; out [P] = c state."""
    width = out.size
    out[:] = 0
    for s in range(b.size):
        row, into, outof = state[s * width : (s + 1) * width], b[s], c[s]
        for i in range(width):
            row[i] = row[i] * kept + into * given[i]
            out[i] += outof * row[i]


@plain("x dt rate b c d source slots starts requests tokens channels size -> scratch state out")
def channels_scanned(table: int, thread: int, threads: int) -> None:
    """channel_scan. scratch [threads, size, BLOCK]: the states of the channels at hand."""
    w = words(table)
    requests, tokens, channels, size = w[9], w[10], w[11], w[12]
    source, slots, starts = array(w[6], requests, INT), array(w[7], tokens, INT), array(w[8], requests + 1, INT)
    now = w[13] + 4 * thread * size * BLOCK
    task = claim(table)
    while task * BLOCK < channels:
        at = 4 * task * BLOCK
        n = min(BLOCK, channels - task * BLOCK)
        bury(w[15] + at, channels, tokens, starts, n)
        for r in range(requests):
            for s in range(size):
                copy(array(w[14] + 4 * (source[r] * size + s) * channels + at, n, FLOAT), array(now + 4 * s * BLOCK, n, FLOAT))
            for t in range(border(starts, r, tokens), border(starts, r + 1, tokens)):
                row = 4 * t * channels + at
                x, step, out = array(w[0] + row, n, FLOAT), array(w[1] + row, n, FLOAT), array(w[15] + row, n, FLOAT)
                skip, b, c = array(w[5] + at, n, FLOAT), floats(w[3], t, size), floats(w[4], t, size)
                out[:] = 0
                for s in range(size):
                    rate, state = array(w[2] + 4 * s * channels + at, n, FLOAT), array(now + 4 * s * BLOCK, n, FLOAT)
                    channel_step(state, rate, step, x, b[s], c[s], out)
                for i in range(n):
                    out[i] += skip[i] * x[i]
                if slots[t] >= 0:
                    for s in range(size):
                        copy(array(now + 4 * s * BLOCK, n, FLOAT), array(w[14] + 4 * (slots[t] * size + s) * channels + at, n, FLOAT))
        task = claim(table)


@helper
def channel_step(state: Array, rate: Array, step: Array, x: Array, into: float, outof: float, out: Array) -> None:
    """One number of each channel's state, a token on."""
    for i in range(out.size):
        kept = FLOAT(exponential(np.float64(step[i]) * rate[i]))
        state[i] = state[i] * kept + into * (step[i] * x[i])
        out[i] += outof * state[i]


@plain("x bias width rows low:d high:d -> y")
def stepped(table: int, thread: int, threads: int) -> None:
    """time_step, row by row."""
    w = words(table)
    width, low, high = w[2], doubles(table)[4], doubles(table)[5]
    row = claim(table)
    while row < w[3]:
        x, y = floats(w[0], row, width), floats(w[6], row, width)
        if w[1] != 0:
            bias = array(w[1], width, FLOAT)
            for i in range(width):
                y[i] = FLOAT(bounded(softplus(np.float64(x[i]) + bias[i]), low, high))
        else:
            for i in range(width):
                y[i] = FLOAT(bounded(softplus(np.float64(x[i])), low, high))
        row = claim(table)


@helper
def bounded(x: float, low: float, high: float) -> float:
    """x between two bounds; NaN stays."""
    return low if x < low else high if x > high else x


def register(p: Portable) -> None:
    """selective_scan, channel_scan and time_step."""

    @p.kernel(ops.selective_scan, declines=declines)
    def selective_scan(
        x: Tensor, dt: Tensor | None, a: Tensor, b: Tensor, c: Tensor, d: Tensor | None,
        state: Tensor, source: Tensor, slots: Tensor, starts: Tensor,
    ) -> Tensor:  # fmt: skip
        (tokens, heads, width), (_, groups, size), out = x.shape, b.shape, empty(HOST, x.shape)
        scratch = empty(HOST, (p.team.threads, size + 1, width))
        table: list[Word] = [*rows(p, x, dt, a, b, c, d), *walked(source, slots, starts), tokens, heads, width, groups, size]
        p.launch(scanned, [*table, scratch, state, out], 5 * size * out.size)
        return out

    @p.kernel(ops.channel_scan, declines=declines)
    def channel_scan(
        x: Tensor, dt: Tensor, rate: Tensor, b: Tensor, c: Tensor, d: Tensor,
        state: Tensor, source: Tensor, slots: Tensor, starts: Tensor,
    ) -> Tensor:  # fmt: skip
        (tokens, channels), size, out = x.shape, rate.shape[0], empty(HOST, x.shape)
        scratch = empty(HOST, (p.team.threads, size, BLOCK))
        table: list[Word] = [*rows(p, x, dt, rate, b, c, d), *walked(source, slots, starts), tokens, channels, size]
        p.launch(channels_scanned, [*table, scratch, state, out], 30 * size * out.size)
        return out

    @p.kernel(ops.time_step, declines=lambda x, bias, **_: not_float(x=x, bias=bias))
    def time_step(x: Tensor, bias: Tensor | None, low: float, high: float) -> Tensor:
        out = empty(HOST, x.shape)
        bounds = [float(np.float32(low)), float(np.float32(high))]
        if out.size:
            p.launch(stepped, [*rows(p, float32_rows(p, x), bias), x.shape[-1], rows_of(x), *bounds, out], 30 * out.size)
        return out
