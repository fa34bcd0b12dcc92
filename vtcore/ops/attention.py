"""Attention over paged caches (PagedAttention, Kwon and others, 2023), and the write into them.

A cache is [P S ...]: P pages of S entries each. A table [R n] lists the pages that each request reads, in order; a slot [T] says where a
token writes: page * S + place, -1 for nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.inputs import SIXTEEN, cut, extreme, ints, normal, ones, paged, sixteen, turned
from vtcore.ops.rules import first, inside, not_negative, rising, unless

STORED = Tolerance({"float32": 0.0}, "values are copied, or rounded once to the dtype of the pages", atol=0.0)
MIXED = Tolerance(
    {"float32": 2e-5}, "float32 scores of some tens are 1e-5 off, and so are their exponentials; then sums in another order", over="D"
)


def _write_samples(rng: np.random.Generator) -> Iterator[Call]:
    slots = ints(4, -1, 9, 11, 0)
    for dtype in (np.dtype(np.float32), *SIXTEEN):
        yield {"pages": normal(rng, 3, 4, 2, 16).astype(dtype), "values": normal(rng, 5, 2, 16), "slots": slots}
    yield {"pages": normal(rng, 5, 1, 33), "values": extreme(rng, 3, 33), "slots": ints(2, 2, -1)}
    yield {"pages": normal(rng, 2, 4), "values": normal(rng, 1), "slots": ints(7)}
    yield {"pages": normal(rng, 2, 4, 8), "values": normal(rng, 0, 8), "slots": ints()}
    yield {"pages": normal(rng, 3, 2, 4, 16).swapaxes(1, 2), "values": cut(normal(rng, 5, 2, 16)), "slots": slots}
    yield {"pages": normal(rng, 3, 4, 24)[..., 8:], "values": turned(normal(rng, 5, 16)), "slots": slots}
    yield from sixteen({"pages": normal(rng, 3, 4, 16), "values": normal(rng, 5, 16), "slots": slots})


def _write_errors() -> Iterator[tuple[Call, str]]:
    good = {"pages": ones(3, 4, 8), "values": ones(2, 8), "slots": ints(0, 11)}
    yield good | {"slots": ints(0, 12)}, "slots holds 12; it must be in [-1, 12)"
    yield good | {"slots": ints(-2, 0)}, "slots holds -2"
    yield good | {"values": ones(2, 2, 4)}, "values has shape [2, 2, 4]; the axes in place of ... must be [8]"
    yield good | {"slots": ints(0)}, "axis T of slots"


def _written(pages: Array, slots: Array, **_: object) -> Array | None:
    return np.unique(slots[slots >= 0] // pages.shape[1]) if isinstance(slots, np.ndarray) else None


@op(
    "pages[P S ...], values[T ...], slots[T]:i -> ()",
    samples=_write_samples,
    errors=_write_errors,
    tolerance=STORED,
    check=lambda pages, slots, **_: inside("slots", slots, -1, pages.shape[0] * pages.shape[1]),
    writes=("pages",),
    touches={"pages": _written},
)
def write_pages(pages: Array, values: Array, slots: Array) -> None:
    """pages[slot // S, slot % S] = values[t] for each token whose slot is not negative, rounded to the dtype of the pages.

    pages [P S ...], changed in place; values [T ...]; slots [T] in [-1, P * S). Of a slot that is named twice the last token counts."""
    for slot, value in zip(slots, narrow(values), strict=True):
        if slot >= 0:
            pages[slot // pages.shape[1], slot % pages.shape[1]] = value


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
    for dtype in SIXTEEN:
        yield base | {n: base[n].astype(dtype) for n in ("k_pages", "v_pages")}
    yield from sixteen(base | {"sinks": normal(rng, 6), "slopes": normal(rng, 6)})


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


def _paged_rules(
    q: Array, k_pages: Array, table: Array, starts: Array, lengths: Array, until: Array, window: int, chunk: int, cap: float,
    chosen: Array | None, **_: object,
) -> str | None:  # fmt: skip
    pages, heads, room = k_pages.shape[0], k_pages.shape[2], table.shape[1] * k_pages.shape[1]
    ways = (window > 0) + (chunk > 0) + (chosen is not None)
    return first(
        unless(heads > 0 and q.shape[1] % heads == 0, f"q has {q.shape[1]} heads; it must be a multiple of the {heads} of k_pages"),
        not_negative(window=window, chunk=chunk, cap=cap),
        unless(ways <= 1, "only one of window, chunk and chosen can say what a token sees"),
        rising("starts", starts, q.shape[0]),
        inside("table", table, 0, pages),
        inside("lengths", lengths, 0, room + 1),
        inside("until", until, -1, room),
        inside("chosen", chosen, -1, room),
        _enough(starts, lengths),
    )


def _enough(starts: Array, lengths: Array) -> str | None:
    if not isinstance(starts, np.ndarray) or not isinstance(lengths, np.ndarray):
        return None
    wrong = f"lengths is {lengths.tolist()}; it must hold at least the {np.diff(starts).tolist()} tokens that starts gives each request"
    return unless(bool((lengths >= np.diff(starts)).all()), wrong)


@op(
    "q[T Hq D], k_pages[P S Hk D], v_pages[P S Hk Dv], table[R n]:i, starts[R+1]:i, lengths[R]:i, until[T]:i, "
    "sinks[Hq]?, chosen[T C]:i?, slopes[Hq]? -> [T Hq Dv]",
    samples=_paged_samples,
    errors=_paged_errors,
    tolerance=MIXED,
    check=_paged_rules,
    touches={"k_pages": seen_pages, "v_pages": seen_pages},
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
    from the start of its own chunk; with chosen [T C] only the entries named there, each once (-1: none).
    Scores: scaled; then cap * tanh(score / cap) if a cap is given; then, with slopes [Hq], minus slope * (index - entry) (ALiBi, Press
    and others, 2021). sinks [Hq] are one more score for each head, which takes weight and gives nothing (gpt-oss, 2025).
    A query that sees nothing, and a row of no request, gives zeros."""
    out = np.zeros((*q.shape[:2], v_pages.shape[-1]), np.float32)
    sink = -np.inf if sinks is None else wide(sinks)[:, None]
    for r, length in enumerate(lengths):
        keys, values = gather(k_pages, table[r]), gather(v_pages, table[r])
        for t in range(starts[r], starts[r + 1]):
            index = length - starts[r + 1] + t
            seen = entries(index, until[t], window, chunk, None if chosen is None else chosen[t])
            scores = _dot(wide(q[t]), wide(keys[seen])) * scale
            scores = np.tanh(scores / cap) * cap if cap else scores
            scores = scores if slopes is None else scores + wide(slopes)[:, None] * (seen - index)
            out[t] = _mix(shares(scores, sink), wide(values[seen]))
    return out


def gather(pages: Array, table: Array) -> Array:
    """The entries of one request's pages, in order: [n * S ...]."""
    return pages[table].reshape(-1, *pages.shape[2:])


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
