"""Alternating updates: sums of a token's streams, streams brought to one level; and the bar that few values of a row are over."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import float32_rows, not_float
from vtcore.providers.portable.kernels.plain.kernel import plain
from vtcore.providers.portable.kernels.plain.streams import add_weighed
from vtcore.providers.portable.kernels.plain.words import DOUBLE, Array, claim, doubles, floats, helper, root, words
from vtcore.providers.portable.provider import Portable
from vtcore.tensor import Tensor, empty


@helper
def mean(x: Array) -> float:
    """Of a row."""
    total = DOUBLE(0)
    for i in range(x.size):
        total += x[i]
    return total / x.size


@helper
def spread(x: Array, center: float) -> float:
    """The mean of (x - center)^2."""
    total = DOUBLE(0)
    for i in range(x.size):
        off = x[i] - center
        total += off * off
    return total / x.size


@plain("streams weights tokens s m hidden -> out")
def mixed(table: int, thread: int, threads: int) -> None:
    """mix_streams."""
    w = words(table)
    tokens, s, m, hidden = w[2], w[3], w[4], w[5]
    row = claim(table)
    while row < tokens * m:
        out, weights = floats(w[6], row, hidden), floats(w[1], row, s)
        out[:] = 0
        for i in range(s):
            add_weighed(out, floats(w[0], row // m * s + i, hidden), weights[i])
        row = claim(table)


@plain("streams like tokens s hidden floor:d -> out")
def levelled(table: int, thread: int, threads: int) -> None:
    """match_level."""
    w, floor = words(table), doubles(table)[5]
    tokens, s, hidden = w[2], w[3], w[4]
    row = claim(table)
    while row < tokens * s:
        x, out = floats(w[0], row, hidden), floats(w[6], row, hidden)
        factor = root(spread(floats(w[1], row // s, hidden), 0.0) / max(spread(x, 0.0), floor))
        for i in range(hidden):
            out[i] = x[i] * factor
        row = claim(table)


@plain("x rows width deviations:d -> out")
def barred(table: int, thread: int, threads: int) -> None:
    """over_bar."""
    w, deviations = words(table), doubles(table)[3]
    rows, width = w[1], w[2]
    row = claim(table)
    while row < rows:
        x, out = floats(w[0], row, width), floats(w[4], row, width)
        center = mean(x)
        bar = center + deviations * root(spread(x, center))
        for i in range(width):
            over = x[i] - bar
            out[i] = 0.0 if over <= 0 else over
        row = claim(table)


def register(p: Portable) -> None:
    """mix_streams, match_level, over_bar."""

    @p.kernel(ops.mix_streams, declines=lambda streams, weights: not_float(streams=streams, weights=weights))
    def mix_streams(streams: Tensor, weights: Tensor) -> Tensor:
        (tokens, s, hidden), m = streams.shape, weights.shape[1]
        out = empty(HOST, (tokens, m, hidden))
        p.launch(mixed, [float32_rows(p, streams), float32_rows(p, weights), tokens, s, m, hidden, out], 2 * s * out.size)
        return out

    @p.kernel(ops.match_level, declines=lambda streams, like, floor: not_float(streams=streams, like=like))
    def match_level(streams: Tensor, like: Tensor, floor: float) -> Tensor:
        tokens, s, hidden = streams.shape
        out = empty(HOST, streams.shape)
        p.launch(levelled, [float32_rows(p, streams), float32_rows(p, like), tokens, s, hidden, floor, out], 4 * out.size)
        return out

    @p.kernel(ops.over_bar, declines=lambda x, deviations: not_float(x=x))
    def over_bar(x: Tensor, deviations: float) -> Tensor:
        out, width = empty(HOST, x.shape), x.shape[-1]
        p.launch(barred, [float32_rows(p, x), x.size // max(1, width), width, deviations, out], 4 * out.size)
        return out
