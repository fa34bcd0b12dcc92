"""choose_entries: a score for each entry and token, then the best of each row."""

from __future__ import annotations

import numpy as np

from vtcore import ops
from vtcore.memory import HOST
from vtcore.providers.portable.arrays import contiguous, contiguous_integers, dtype_of, float32_rows, not_float
from vtcore.providers.portable.jit import kernel
from vtcore.providers.portable.kernels.paged import request_of
from vtcore.providers.portable.kernels.plain.best import chosen
from vtcore.providers.portable.kernels.plain.kernel import not_int32
from vtcore.providers.portable.lanes import SIZES, Lanes
from vtcore.providers.portable.launch import Word
from vtcore.providers.portable.provider import Portable
from vtcore.providers.portable.value import Val
from vtcore.tensor import Tensor, empty

SCORES = 1 << 22  # of so many entries and tokens at a time


@kernel("q weights keys table starts lengths first tokens requests pages every scale:f k_page k_slot k_column -> scores")
def weighed(k: Lanes, q: Val, weights: Val, keys: Val, table: Val, starts: Val, lengths: Val, first: Val, tokens: Val, requests: Val,
            pages: Val, every: Val, scale: Val, k_page: Val, k_slot: Val, k_column: Val, scores: Val,
            *, heads: int, width: int, page: int, dtype: str) -> None:  # fmt: skip
    """The scores of `tokens` tokens from `first` on, [tokens, pages * page], where entries are complete. q is [T D H]."""
    for task in k.claim(tokens * pages):
        row, number = task // pages, task % pages
        token = first + row
        request = request_of(k, starts, requests, token)
        with k.when(request > -1):
            index = k.integer(lengths + request * 4) - k.integer(starts + request * 4 + 4) + token
            at = keys + k.integer(table + (request * pages + number) * 4) * k_page * SIZES[dtype]
            for slot in k.range(k.min((index + 1) // every - number * page, page)):
                key = (at + slot * k_slot * SIZES[dtype], k_column * SIZES[dtype])
                score = _score(k, q + token * (heads * width * 4), weights + token * (heads * 4), key, scale, heads, width, dtype)
                k.put_number(scores + ((row * pages + number) * page + slot) * 4, score)


def _score(k: Lanes, q: Val, weights: Val, key: tuple[Val, Val], scale: Val, heads: int, width: int, dtype: str) -> Val:
    """One entry's: registers of heads, summed over the columns of the key."""
    parts = [(h, None if heads - h >= k.lanes else k.lift(heads - h)) for h in range(0, heads, k.lanes)]
    dots = [k.var(k.const(0.0)) for _ in parts]
    for dot in dots:
        dot.set(0.0)
    for d in k.range(width):
        x = k.splat(k.number(key[0] + d * key[1], dtype))
        for (h, count), dot in zip(parts, dots, strict=True):
            dot.set(k.fma(k.floats(q + (d * heads + h) * 4, "float32", count), x, dot.get()))
    total = k.const(0.0)
    for (h, count), dot in zip(parts, dots, strict=True):
        total = k.fma(k.max(k.const(0.0), dot.get() * k.splat(scale)), k.floats(weights + h * 4, "float32", count), total)
    return k.hsum(total)


def register(p: Portable) -> None:
    """choose_entries."""

    @p.kernel(ops.choose_entries, declines=_declines)
    def choose_entries(
        q: Tensor, weights: Tensor, keys: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, k: int, every: int, scale: float
    ) -> Tensor:
        (tokens, heads, width), (_, page, _) = q.shape, keys.shape
        turned, weights, requests, pages = contiguous(p, q.transpose(0, 2, 1)), float32_rows(p, weights), lengths.shape[0], table.shape[1]
        table, starts, lengths = map(contiguous_integers, (table, starts, lengths))
        out, values = empty(HOST, (tokens, k), np.int32), empty(HOST, (tokens, k))
        step = max(1, SCORES // max(1, pages * page))
        for first in range(0, tokens, step):
            n = min(step, tokens - first)
            scores = empty(HOST, (n, pages * page))
            numbers: list[Word] = [turned, weights, keys, table, starts, lengths, first, n, requests, pages, every, scale, *keys.strides]
            p.launch(
                weighed,
                [*numbers, scores],
                n * pages * page * heads * width // 8,
                heads=heads,
                width=width,
                page=page,
                dtype=dtype_of(keys),
            )
            rows: list[Word] = [scores, starts, lengths, first, n, requests, pages * page, every, k, values, out]
            p.launch(chosen, rows, n * pages * page)
        return out


def _declines(q: Tensor, weights: Tensor, keys: Tensor, table: Tensor, starts: Tensor, lengths: Tensor, **_: object) -> str | None:
    return not_float(q=q, weights=weights, keys=keys) or not_int32(table=table, starts=starts, lengths=lengths)
