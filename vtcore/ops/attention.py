"""Attention over paged caches (PagedAttention, Kwon and others, 2023), and the write into them.

A cache is [P S ...]: P pages of S entries each. A table [R n] lists the pages that each request reads, in order; a slot [T] says where a
token writes: page * S + place, -1 for nowhere."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from vtcore.op import Array, op
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.inputs import nothing, nothing_wrong


def _written(pages: Array, slots: Array, **_: object) -> Array | None:
    return np.unique(slots[slots >= 0] // pages.shape[1]) if isinstance(slots, np.ndarray) else None


@op(
    "pages[P S ...], values[T ...], slots[T]:i -> ()",
    samples=nothing,
    errors=nothing_wrong,
    writes=("pages",),
    touches={"pages": _written},
)
def write_pages(pages: Array, values: Array, slots: Array) -> None:
    """pages[slot // S, slot % S] = values[t] for each token whose slot is not negative, rounded to the dtype of the pages.

    pages [P S ...], changed in place; values [T ...]; slots [T] in [-1, P * S). Of a slot that is named twice the last token counts."""
    for slot, value in zip(slots, narrow(values), strict=True):
        if slot >= 0:
            pages[slot // pages.shape[1], slot % pages.shape[1]] = value


def _seen(table: Array, **_: object) -> Array | None:
    return np.unique(table[table >= 0]) if isinstance(table, np.ndarray) else None


@op(
    "q[T Hq D], k_pages[P S Hk D], v_pages[P S Hk Dv], table[R n]:i, starts[R+1]:i, lengths[R]:i, until[T]:i, "
    "sinks[Hq]?, chosen[T C]:i?, slopes[Hq]? -> [T Hq Dv]",
    samples=nothing,
    errors=nothing_wrong,
    touches={"k_pages": _seen, "v_pages": _seen},
)
def paged_attention(
    q: Array, k_pages: Array, v_pages: Array, table: Array, starts: Array, lengths: Array, until: Array, scale: float,
    window: int = 0, chunk: int = 0, cap: float = 0.0,
    sinks: Array | None = None, chosen: Array | None = None, slopes: Array | None = None,
) -> Array:  # fmt: skip
    """softmax(scale * q K^T) V for each query over the entries that its token may see: [T Hq Dv].

    q [T Hq D]; k_pages [P S Hk D] and v_pages [P S Hk Dv]; Hq / Hk neighbouring query heads share a head of K and V.
    Request r owns the rows starts[r] to starts[r + 1] (starts [R+1]) and reads the pages table[r] (table [R n]). It has lengths[r]
    tokens with them, so that a row's index in the sequence is lengths[r] - starts[r + 1] + row.
    A token sees the entries 0 to until[t] inclusive; with a window those of the last `window` up to its own index; with a chunk those
    from the start of its own chunk; with chosen [T C] only the entries named there (-1: none).
    Scores: scaled; then cap * tanh(score / cap) if a cap is given; then, with slopes [Hq], minus slope * (index - entry) (ALiBi, Press
    and others, 2021). sinks [Hq] are one more score for each head, which takes weight and gives nothing (gpt-oss, 2025).
    A query that sees nothing, and a row of no request, gives zeros."""
    out = np.zeros((*q.shape[:2], v_pages.shape[-1]), np.float32)
    sink = -np.inf if sinks is None else wide(sinks)[:, None]
    for r, length in enumerate(lengths):
        keys, values = gather(k_pages, table[r]), gather(v_pages, table[r])
        for t in range(starts[r], starts[r + 1]):
            index = length - starts[r + 1] + t
            seen = _entries(index, until[t], window, chunk, None if chosen is None else chosen[t])
            scores = _dot(wide(q[t]), wide(keys[seen])) * scale
            scores = np.tanh(scores / cap) * cap if cap else scores
            scores = scores if slopes is None else scores + wide(slopes)[:, None] * (seen - index)
            out[t] = _mix(shares(scores, sink), wide(values[seen]))
    return out


def gather(pages: Array, table: Array) -> Array:
    """The entries of one request's pages, in order: [n * S ...]."""
    return pages[table].reshape(-1, *pages.shape[2:])


def _entries(index: int, until: int, window: int, chunk: int, chosen: Array | None) -> Array:
    first = max(0, index - window + 1) if window else index // chunk * chunk if chunk else 0
    return np.arange(first, until + 1) if chosen is None else np.sort(chosen[chosen >= 0])


def _dot(q: Array, keys: Array) -> Array:
    """q [Hq D] by keys [n Hk D]: [Hq n]."""
    heads = keys.shape[1]
    return np.einsum("hgd,nhd->hgn", q.reshape(heads, q.shape[0] // heads, -1), keys).reshape(q.shape[0], -1)


def _mix(weights: Array, values: Array) -> Array:
    """weights [Hq n] by values [n Hk Dv]: [Hq Dv]."""
    heads = values.shape[1]
    return np.einsum("hgn,nhd->hgd", weights.reshape(heads, weights.shape[0] // heads, -1), values).reshape(weights.shape[0], -1)


@op("q[T H D], k[T H D], v[T H Dv], starts[N]:i -> [T H Dv]", samples=nothing, errors=nothing_wrong)
def attention(q: Array, k: Array, v: Array, starts: Array, scale: float) -> Array:
    """softmax(scale * q k^T) v of every token over all tokens of its own run, with nothing kept: encoders and vision towers.

    q and k [T H D], v [T H Dv]; run i is the rows starts[i] to starts[i + 1]; rows of no run are zeros. Vaswani and others, 2017."""
    out = np.zeros((*q.shape[:2], v.shape[-1]), np.float32)
    for begin, end in pairwise(starts):
        keys, values = wide(k[begin:end]), wide(v[begin:end])
        for t in range(begin, end):
            out[t] = _mix(shares(_dot(wide(q[t]), keys) * scale), values)
    return out
