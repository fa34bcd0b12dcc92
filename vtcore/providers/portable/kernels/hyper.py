"""Hyper-connections: products of all streams with a few rows, then what each token makes of them."""

from __future__ import annotations

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.plain.streams import gathered, joined, spread
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty


@kernel("x fn rows width tokens eps:f share:f -> z")
def products(k: Lanes, x: Val, fn: Val, rows: Val, width: Val, tokens: Val, eps: Val, share: Val, z: Val, *, dtype: str) -> None:
    """z [T rows] = fn x / sqrt(mean(x^2) + eps); x [T width], share is 1 / width."""
    for task in k.claim(tokens * rows):
        at, row = x + task // rows * width * 4, fn + task % rows * width * SIZES[dtype]
        dot, squares = k.var(k.const(0.0)), k.var(k.const(0.0))
        dot.set(0.0)
        squares.set(0.0)
        for i, count in k.vectors(width):
            v = k.floats(at + i * 4, "float32", count)
            dot.set(k.fma(v, k.floats(row + i * SIZES[dtype], dtype, count), dot.get()))
            squares.set(k.fma(v, v, squares.get()))
        k.put_number(z + task * 4, k.hsum(dot.get()) / k.sqrt(k.hsum(squares.get()) * share + eps))


def mixes(p: Portable, x: Tensor, fn: Tensor, eps: float) -> Tensor:
    """The products of every token: [T M]."""
    (tokens, streams, hidden), rows = x.shape, fn.shape[0]
    fn, width, z = fn if fn.contiguous else float32_rows(p, fn), streams * hidden, empty(HOST, (tokens, rows))
    p.launch(products, [x, fn, rows, width, tokens, eps, 1 / width, z], tokens * rows * width, dtype=dtype_of(fn))
    return z


def _declines(**call: object) -> str | None:
    return not_float(**{n: v for n, v in call.items() if isinstance(v, Tensor)})


def register(p: Portable) -> None:
    """hyper_in, hyper_out, hyper_head."""

    @p.kernel(ops.hyper_in, declines=_declines)
    def hyper_in(
        streams: Tensor, fn: Tensor, base: Tensor, scales: Tensor, rounds: int, hc_eps: float, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        streams, base, scales = (float32_rows(p, t) for t in (streams, base, scales))
        tokens, s, hidden = streams.shape
        h, post, comb = empty(HOST, (tokens, hidden)), empty(HOST, (tokens, s)), empty(HOST, (tokens, s, s))
        z = mixes(p, streams, fn, eps)
        p.launch(spread, [streams, z, base, scales, tokens, s, hidden, rounds, hc_eps, h, post, comb], 2 * streams.size)
        return h, post, comb

    @p.kernel(ops.hyper_out, declines=_declines)
    def hyper_out(streams: Tensor, out: Tensor, post: Tensor, comb: Tensor) -> Tensor:
        streams, out, post, comb = (float32_rows(p, t) for t in (streams, out, post, comb))
        tokens, s, hidden = streams.shape
        y = empty(HOST, streams.shape)
        p.launch(joined, [streams, out, post, comb, tokens, s, hidden, y], 2 * s * streams.size)
        return y

    @p.kernel(ops.hyper_head, declines=_declines)
    def hyper_head(streams: Tensor, fn: Tensor, base: Tensor, scales: Tensor, hc_eps: float, eps: float) -> Tensor:
        streams, base, scales = (float32_rows(p, t) for t in (streams, base, scales))
        tokens, s, hidden = streams.shape
        h, z = empty(HOST, (tokens, hidden)), mixes(p, streams, fn, eps)
        p.launch(gathered, [streams, z, base, scales, tokens, s, hidden, hc_eps, h], 2 * streams.size)
        return h
