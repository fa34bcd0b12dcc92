"""Attention over paged caches (PagedAttention, Kwon and others, 2023), and without one.

A cache is [P S ...]: P pages of S entries each, as ops/pages.py writes them. A table [R n] lists the pages that each request reads, in
order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.inputs import SIXTEEN, cut, ints, normal, ones, paged, sixteen, turned
from vtcore.ops.pages import FLOAT8, INT8
from vtcore.ops.rules import first, inside, not_negative, rising, unless

MIXED = Tolerance(
    {"float32": 2e-5}, "float32 scores of some tens are 1e-5 off, and so are their exponentials; then sums in another order", over="D"
)


def seen_pages(table: Array, **_: object) -> Array | None:
    """The pages that a call reads: those in its table."""
    return np.unique(table[table >= 0]) if isinstance(table, np.ndarray) else None


def _paged_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield paged(rng, tokens=(1,), lengths=(1,), heads=(1, 1), width=(1, 1), page=1)
    yield paged(rng, tokens=(1, 1, 1), lengths=(17, 1, 9), heads=(9, 3), width=(64, 64), page=16)
    yield paged(rng, tokens=(5, 0, 3, 0), lengths=(5, 0, 12, 7), heads=(4, 4), width=(80, 80), page=4)  # new, absent, in chunks, waiting
    yield paged(rng, tokens=(2, 1), lengths=(6, 40), heads=(8, 1), width=(96, 24), page=8, idle=3)  # rows of no request
    yield paged(rng, tokens=(), lengths=(), heads=(2, 2), width=(16, 16), page=4)
    base = paged(rng, tokens=(6, 1), lengths=(11, 20), heads=(6, 2), width=(40, 40), page=4)
    for option in ({"window": 1}, {"window": 3}, {"window": 100}, {"chunk": 4}, {"chunk": 5}, {"cap": 2.0}, {"scale": 1.0}):
        yield base | option
    yield base | {
        "until": np.minimum(base["until"] // 4 * 4 + 3, np.repeat(ints(10, 19), (6, 1)))
    }  # groups of tokens that see each other, as an image's do
    yield base | {"until": np.full(7, -1, np.int32)}
    yield base | {"sinks": normal(rng, 6), "window": 2}
    yield base | {"sinks": normal(rng, 6), "until": np.full(7, -1, np.int32)}
    yield base | {"slopes": narrow(2.0 ** -np.arange(1, 7))}
    yield base | {"slopes": normal(rng, 6), "cap": 5.0, "sinks": normal(rng, 6), "window": 4}
    chosen = np.stack([rng.permutation(6)[:3] for _ in range(7)]).astype(np.int32)
    chosen[1], chosen[2, 0] = -1, -1
    yield base | {"chosen": chosen}
    far = paged(rng, tokens=(1, 3), lengths=(45, 4), heads=(12, 1), width=(48, 48), page=8)
    named = np.full((4, 35), -1, np.int32)
    named[0], named[1:, 17:20] = rng.permutation(45)[:35], rng.permutation(4)[:3]
    yield far | {"chosen": named, "v_pages": far["k_pages"][..., :40], "sinks": normal(rng, 12)}
    yield far | {"chosen": named, "slopes": normal(rng, 12), "cap": 3.0}
    yield far | {"chosen": named} | {n: far[n].astype(SIXTEEN[1]) for n in ("k_pages", "v_pages")}
    yield base | {"q": cut(base["q"].reshape(7, 240)).reshape(7, 6, 40), "v_pages": base["k_pages"][..., :24]}
    latent = paged(rng, tokens=(2, 1), lengths=(5, 40), heads=(16, 1), width=(576, 1), page=16)
    yield latent | {"v_pages": latent["k_pages"][..., :512]}
    yield base | {n: np.ascontiguousarray(base[n].swapaxes(1, 2)).swapaxes(1, 2) for n in ("k_pages", "v_pages")}
    yield base | {"q": base["q"] * 30}
    for dtype in (*SIXTEEN, *FLOAT8):
        yield base | {n: base[n].astype(dtype) for n in ("k_pages", "v_pages")}
    yield base | {"v_pages": base["v_pages"].astype(SIXTEEN[1]), "k_pages": base["k_pages"].astype(list(FLOAT8)[1]), "window": 3}
    yield from _q8_samples(rng)
    yield from sixteen(base | {"sinks": normal(rng, 6), "slopes": normal(rng, 6)})


def _q8_samples(rng: np.random.Generator) -> Iterator[Call]:
    """Pages of int8 with their scales: as keys lie best for a row at a time, and for a column at a time."""
    for heads, page, width in (((6, 2), 4, 40), ((4, 4), 5, 33), ((8, 1), 32, 16)):
        call = paged(rng, tokens=(6, 1), lengths=(11, 20), heads=heads, width=(width, width), page=page)
        codes = {n: rng.integers(-127, 128, call[n].shape, np.int8) for n in ("k_pages", "v_pages")}
        scales = {n: normal(rng, *call["k_pages"].shape[:3], magnitude=1 / 99) for n in ("k_scales", "v_scales")}
        call |= codes | scales
        yield call
        yield call | {"k_pages": np.ascontiguousarray(codes["k_pages"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2), "window": 4}
        yield call | {"chosen": np.stack([rng.permutation(6)[:3] for _ in range(7)]).astype(np.int32)}
    yield call | {"sinks": normal(rng, 8), "slopes": normal(rng, 8), "cap": 5.0}


def _paged_errors() -> Iterator[tuple[Call, str]]:
    good = paged(np.random.default_rng(0), tokens=(2,), lengths=(5,), heads=(4, 2), width=(8, 8), page=4)
    yield good | {"q": ones(2, 3, 8)}, "q has 3 heads; it must be a multiple of the 2 of k_pages"
    yield good | {"q": ones(2, 4, 6)}, "axis D of k_pages"
    yield good | {"v_pages": good["v_pages"][:, :, :1]}, "axis Hk of v_pages"
    yield good | {"table": ints(99, 0).reshape(1, 2)}, "table holds 99"
    yield good | {"starts": ints(0, 1, 2)}, "axis R+1 of starts"
    yield good | {"starts": ints(0, 3)}, "starts holds 3"
    yield good | {"until": ints(3, 12)}, "until holds 12; it must be in [-1, 12)"
    yield good | {"lengths": ints(13)}, "lengths holds 13; it must be in [0, 13)"
    yield good | {"lengths": ints(1)}, "lengths is [1]; it must hold at least the [2] tokens that starts gives each request"
    yield good | {"window": 2, "chunk": 2}, "only one of window, chunk and chosen"
    yield good | {"window": -1}, "window is -1"
    yield good | {"cap": -5.0}, "cap is -5.0"
    yield good | {"sinks": ones(2)}, "axis Hq of sinks"
    yield good | {"chosen": np.full((2, 3), 12, np.int32)}, "chosen holds 12"
    yield good | {"slopes": ones(1, 4)}, "slopes has shape [1, 4]"
    yield good | {"k_pages": good["k_pages"].astype(INT8)}, "k_pages is int8 and k_scales is None"
    yield good | {"v_scales": ones(*good["v_pages"].shape[:3])}, "v_pages is float32 and v_scales is given"
    codes = good["k_pages"].astype(INT8)
    yield good | {"k_pages": codes, "k_scales": ones(2, 4, 2)}, "axis P of k_scales"
    yield good | {"k_pages": codes, "k_scales": ones(*codes.shape[:3]).astype(SIXTEEN[0])}, "k_scales is float16; it must be float32"


def _paged_rules(
    q: Array, k_pages: Array, table: Array, starts: Array, lengths: Array, until: Array, window: int, chunk: int, cap: float,
    chosen: Array | None, v_pages: Array, k_scales: Array | None, v_scales: Array | None, **_: object,
) -> str | None:  # fmt: skip
    pages, heads, room = k_pages.shape[0], k_pages.shape[2], table.shape[1] * k_pages.shape[1]
    ways = (window > 0) + (chunk > 0) + (chosen is not None)
    return first(
        unless(heads > 0 and q.shape[1] % heads == 0, f"q has {q.shape[1]} heads; it must be a multiple of the {heads} of k_pages"),
        not_negative(window=window, chunk=chunk, cap=cap),
        _scaled("k", k_pages, k_scales),
        _scaled("v", v_pages, v_scales),
        unless(ways <= 1, "only one of window, chunk and chosen can say what a token sees"),
        rising("starts", starts, q.shape[0]),
        inside("table", table, 0, pages),
        inside("lengths", lengths, 0, room + 1),
        inside("until", until, -1, room),
        inside("chosen", chosen, -1, room),
        _enough(starts, lengths),
    )


def _scaled(name: str, pages: Array, scales: Array | None) -> str | None:
    given = "None" if scales is None else "given"
    wrong = f"{name}_pages is {pages.dtype} and {name}_scales is {given}; int8 is read with scales, and only int8"
    return first(
        unless((pages.dtype == INT8) == (scales is not None), wrong),
        unless(scales is None or scales.dtype == np.float32, f"{name}_scales is {getattr(scales, 'dtype', None)}; it must be float32"),
    )


def _enough(starts: Array, lengths: Array) -> str | None:
    if not isinstance(starts, np.ndarray) or not isinstance(lengths, np.ndarray):
        return None
    wrong = f"lengths is {lengths.tolist()}; it must hold at least the {np.diff(starts).tolist()} tokens that starts gives each request"
    return unless(bool((lengths >= np.diff(starts)).all()), wrong)


@op(
    "q[T Hq D], k_pages[P S Hk D]:c, v_pages[P S Hk Dv]:c, table[R n]:i, starts[R+1]:i, lengths[R]:i, until[T]:i, "
    "sinks[Hq]?, chosen[T C]:i?, slopes[Hq]?, k_scales[P S Hk]:c?, v_scales[P S Hk]:c? -> [T Hq Dv]",
    samples=_paged_samples,
    errors=_paged_errors,
    tolerance=MIXED,
    check=_paged_rules,
    touches=dict.fromkeys(("k_pages", "v_pages", "k_scales", "v_scales"), seen_pages),
)
def paged_attention(
    q: Array, k_pages: Array, v_pages: Array, table: Array, starts: Array, lengths: Array, until: Array, scale: float,
    window: int = 0, chunk: int = 0, cap: float = 0.0,
    sinks: Array | None = None, chosen: Array | None = None, slopes: Array | None = None,
    k_scales: Array | None = None, v_scales: Array | None = None,
) -> Array:  # fmt: skip
    """softmax(scale * q K^T) V for each query over the entries that its token may see: [T Hq Dv].

    q [T Hq D]; k_pages [P S Hk D] and v_pages [P S Hk Dv]; Hq / Hk neighbouring query heads share a head of K and V.
    Request r owns the rows starts[r] to starts[r + 1] (starts [R+1]) and reads the pages table[r] (table [R n]). It has lengths[r]
    tokens with them, so that a row's index in the sequence is lengths[r] - starts[r + 1] + row.
    A token sees the entries 0 to until[t] inclusive; with a window those of the last `window` up to its own index; with a chunk those
    from the start of its own chunk; with chosen [T C] only the entries named there, each once (-1: none).
    Scores: scaled; then cap * tanh(score / cap) if a cap is given; then, with slopes [Hq], minus slope * (index - entry) (ALiBi, Press
    and others, 2021). sinks [Hq] are one more score for each head, which takes weight and gives nothing (gpt-oss, 2025).
    Pages of 8-bit floats count as they are; pages of int8 are codes, each times its entry's and head's k_scales or v_scales [P S Hk].
    A query that sees nothing, and a row of no request, gives zeros."""
    out = np.zeros((*q.shape[:2], v_pages.shape[-1]), np.float32)
    sink = -np.inf if sinks is None else wide(sinks)[:, None]
    for r, length in enumerate(lengths):
        keys, values = gather(k_pages, table[r], k_scales), gather(v_pages, table[r], v_scales)
        for t in range(starts[r], starts[r + 1]):
            index = length - starts[r + 1] + t
            seen = entries(index, until[t], window, chunk, None if chosen is None else chosen[t])
            scores = _dot(wide(q[t]), wide(keys[seen])) * scale
            scores = np.tanh(scores / cap) * cap if cap else scores
            scores = scores if slopes is None else scores + wide(slopes)[:, None] * (seen - index)
            out[t] = _mix(shares(scores, sink), wide(values[seen]))
    return out


def gather(pages: Array, table: Array, scales: Array | None = None) -> Array:
    """The entries of one request's pages, in order: [n * S ...]; times their scales, in float64."""
    read = pages[table] if scales is None else wide(pages[table]) * wide(scales[table])[..., None]
    return read.reshape(-1, *pages.shape[2:])


def entries(index: int, until: int, window: int, chunk: int, chosen: Array | None) -> Array:
    """Which entries a token at `index` of its sequence sees, in order."""
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


def _attention_samples(rng: np.random.Generator) -> Iterator[Call]:
    for starts, heads, width, value in (((0, 5), 1, 80, 80), ((0, 3, 3, 7, 8), 3, 64, 16), ((0, 1), 2, 16, 16), ((0, 0), 2, 8, 8)):
        t = starts[-1]
        q, k, v = normal(rng, t, heads, width), normal(rng, t, heads, width), normal(rng, t, heads, value)
        yield {"q": q, "k": k, "v": v, "starts": ints(*starts), "scale": width**-0.5}
    call = {"q": cut(normal(rng, 6, 2, 16)), "k": turned(normal(rng, 6, 2, 16)), "v": normal(rng, 6, 4, 8)[:, ::2], "scale": 1.0}
    yield call | {"starts": ints(1, 3, 5)}
    yield from sixteen(call | {"starts": ints(0, 6)})


def _attention_errors() -> Iterator[tuple[Call, str]]:
    good = {"q": ones(4, 2, 8), "k": ones(4, 2, 8), "v": ones(4, 2, 8), "starts": ints(0, 4), "scale": 1.0}
    yield good | {"k": ones(5, 2, 8)}, "axis T of k"
    yield good | {"v": ones(4, 1, 8)}, "axis H of v"
    yield good | {"starts": ints(0, 5)}, "starts holds 5"
    yield good | {"starts": ints(3, 1)}, "it must never fall"
    yield good | {"scale": None}, "scale is NoneType"


@op(
    "q[T H D], k[T H D], v[T H Dv], starts[N]:i -> [T H Dv]",
    samples=_attention_samples,
    errors=_attention_errors,
    tolerance=MIXED,
    check=lambda q, starts, **_: rising("starts", starts, q.shape[0]),
)
def attention(q: Array, k: Array, v: Array, starts: Array, scale: float) -> Array:
    """softmax(scale * q k^T) v of every token over all tokens of its own run, with nothing kept: encoders and vision towers.

    q and k [T H D], v [T H Dv]; run i is the rows starts[i] to starts[i + 1]; rows of no run are zeros. Vaswani and others, 2017."""
    out = np.zeros((*q.shape[:2], v.shape[-1]), np.float32)
    for begin, end in pairwise(starts):
        keys, values = wide(k[begin:end]), wide(v[begin:end])
        for t in range(begin, end):
            out[t] = _mix(shares(_dot(wide(q[t]), keys) * scale), values)
    return out
