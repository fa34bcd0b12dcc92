"""Attention over compressed entries (DeepSeek 4, 2026): beside a window of plain ones, one entry of keys that are also values for every few
tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from vtcore.op import Array, Call, Tolerance, op
from vtcore.ops.attention import MIXED, gather, seen_pages
from vtcore.ops.exact import narrow, shares, wide
from vtcore.ops.indexer import enough_tokens
from vtcore.ops.inputs import SIXTEEN, ints, normal, ones, paged, sixteen
from vtcore.ops.rules import first, inside, not_negative, positive, rising, unless

FOLDED = Tolerance({"float32": 5e-5}, "float32 exponentials of scores of some units, a sum of few terms, then a norm")


def _raw(rng: np.random.Generator, tokens: tuple[int, ...], lengths: tuple[int, ...], width: int, every: int, series: int = 1,
         page: int = 8, idle: int = 0) -> Call:  # fmt: skip
    """A batch of kept rows in pages; slots of the entries where a token closes a window."""
    batch = paged(rng, tokens, lengths, (1, 1), (width * series, width * series), page, idle)
    index = batch["until"]
    slots = np.where((index + 1) % every == 0, index // every, -1).astype(np.int32)
    slots[len(index) - idle :] = -1
    call = {n: batch[n] for n in ("table", "starts", "lengths")} | {"kv": batch["k_pages"][:, :, 0], "gate": batch["v_pages"][:, :, 0]}
    return call | {"ape": normal(rng, every, width * series), "weight": normal(rng, width), "slots": slots, "eps": 1e-6}


def _fold_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield _raw(rng, (1,), (4,), 64, 4)
    yield _raw(rng, (1, 1, 1), (8, 9, 24), 32, 8, page=16)
    yield _raw(rng, (13, 0, 5), (13, 3, 40), 33, 4, series=2, idle=2)
    yield _raw(rng, (), (), 16, 4)
    base = _raw(rng, (9, 1), (20, 8), 24, 4, series=2)
    yield base | {"gate": base["gate"] * 30, "eps": 0.5}
    yield base | {"kv": np.ascontiguousarray(base["kv"].swapaxes(1, 2)).swapaxes(1, 2), "slots": np.full(10, -1, np.int32)}
    yield base | {n: base[n].astype(SIXTEEN[0]) for n in ("kv", "gate")}
    yield from sixteen(base)


def _fold_errors() -> Iterator[tuple[Call, str]]:
    good = _raw(np.random.default_rng(0), (4,), (8,), 8, 4)
    yield good | {"weight": ones(5)}, "ape has 8 columns; it must have 5, those of weight, or twice as many"
    yield good | {"gate": good["gate"][..., :4]}, "axis C of gate"
    yield (
        good | {"slots": np.full(4, 1, np.int32), "lengths": ints(4)},
        "slots has an entry for token 0 of its sequence, where no window of 4 ends",
    )
    yield good | {"table": good["table"] + 99}, "table holds"
    yield good | {"eps": -1.0}, "eps is -1.0"


def _fold_rules(
    kv: Array, ape: Array, weight: Array, table: Array, slots: Array, starts: Array, lengths: Array, eps: float, **_: object
) -> str | None:
    columns, width = ape.shape[1], weight.shape[0]
    return first(
        unless(columns in (width, 2 * width), f"ape has {columns} columns; it must have {width}, those of weight, or twice as many"),
        unless(ape.shape[0] > 0, "ape has no rows; it must have one for each token of a window"),
        not_negative(eps=eps),
        rising("starts", starts, slots.shape[0]),
        inside("table", table, 0, kv.shape[0]),
        inside("lengths", lengths, 0, table.shape[1] * kv.shape[1] + 1),
        enough_tokens(starts, lengths),
        _whole(slots, starts, lengths, ape.shape[0]),
    )


def _whole(slots: Any, starts: Any, lengths: Any, every: int) -> str | None:
    if not all(isinstance(a, np.ndarray) for a in (slots, starts, lengths)):
        return None
    for r, length in enumerate(lengths):
        index = np.arange(length - starts[r + 1] + starts[r], length)
        early = index[(slots[starts[r] : starts[r + 1]] >= 0) & ((index + 1) % every != 0)]
        if early.size:
            return f"slots has an entry for token {early[0]} of its sequence, where no window of {every} ends"
    return None


@op(
    "kv[P S C], gate[P S C], ape[E C], weight[D], table[R n]:i, slots[T]:i, starts[R+1]:i, lengths[R]:i -> [T D]",
    samples=_fold_samples,
    errors=_fold_errors,
    tolerance=FOLDED,
    check=_fold_rules,
    touches={"kv": seen_pages, "gate": seen_pages},
)
def compress(
    kv: Array, gate: Array, ape: Array, weight: Array, table: Array, slots: Array, starts: Array, lengths: Array, eps: float
) -> Array:  # fmt: skip
    """For each token whose slot isn't negative, the entry of the window of E tokens that it closes, [T D]; else zeros.

    kv, gate [P S C]: what is kept of each token, in pages; ape [E C]; slots [T]; table [R n], starts, lengths as in paged_attention.
    In each channel the sum of the window's kv, weighed by the softmax of its gate + ape; then the RMS norm with weight [D] and eps.
    C = 2 D is two series side by side: windows overlap, a token's first half counts for the next window, its second for its own."""
    every, width = ape.shape[0], weight.shape[0]
    out = np.zeros((slots.shape[0], width))
    for r, length in enumerate(lengths):
        values, scores = wide(gather(kv, table[r])), wide(gather(gate, table[r]))
        for t in range(starts[r], starts[r + 1]):
            if slots[t] >= 0:
                begin = length - starts[r + 1] + t + 1 - every
                mixed = _window(values, scores, wide(ape), begin, width)
                out[t] = mixed / np.sqrt(np.mean(mixed * mixed) + eps) * wide(weight)
    return narrow(out)


def _window(values: Array, scores: Array, ape: Array, begin: int, width: int) -> Array:
    every, half = len(ape), ape.shape[1] - width
    v, s = values[begin : begin + every, half:], scores[begin : begin + every, half:] + ape[:, half:]
    if half and begin:
        v = np.concatenate([values[begin - every : begin, :half], v])
        s = np.concatenate([scores[begin - every : begin, :half] + ape[:, :half], s])
    weights = np.exp(s - s.max(0))
    mixed: Array = (v * weights / weights.sum(0)).sum(0)
    return mixed


def _far(rng: np.random.Generator, tokens: tuple[int, ...], lengths: tuple[int, ...], heads: int, width: int, every: int, page: int = 8,
         idle: int = 0) -> Call:  # fmt: skip
    batch = paged(rng, tokens, lengths, (heads, 1), (width, 1), page, idle)
    far = paged(rng, tuple(0 for _ in tokens), tuple(n // every for n in lengths), (1, 1), (width, 1), page)
    call = {n: batch[n] for n in ("q", "table", "starts", "lengths", "scale")} | {"pages": batch["k_pages"], "window": 6, "every": every}
    return call | {"entries": far["k_pages"], "entry_table": far["table"], "sinks": normal(rng, heads)}


def _far_samples(rng: np.random.Generator) -> Iterator[Call]:
    yield _far(rng, (1,), (1,), 1, 1, 4)
    yield _far(rng, (1, 1, 1), (60, 1, 9), 8, 64, 4, page=16)
    yield _far(rng, (7, 0, 3, 0), (7, 0, 30, 7), 3, 33, 8, idle=2)
    yield _far(rng, (), (), 2, 16, 4)
    base = _far(rng, (6, 1), (11, 40), 12, 40, 2)
    chosen = np.full((7, 19), -1, np.int32)
    chosen[:6, 3:5], chosen[6] = ints(0, 2), rng.permutation(20)[:19]
    yield base | {"window": 100}
    yield base | {"chosen": chosen}
    yield base | {"chosen": np.full((7, 2), -1, np.int32), "sinks": None}
    yield base | {"sinks": None, "scale": 1.0}
    yield base | {n: base[n].astype(SIXTEEN[1]) for n in ("pages", "entries")}
    yield from sixteen(base | {"chosen": chosen})


def _far_errors() -> Iterator[tuple[Call, str]]:
    good = _far(np.random.default_rng(0), (2,), (9,), 4, 8, 4)
    yield good | {"pages": good["pages"].repeat(2, 2)}, "axis Hk of entries"
    yield good | {"window": 0}, "window is 0"
    yield good | {"entry_table": good["entry_table"] + 99}, "entry_table holds"
    yield good | {"chosen": np.full((2, 3), 99, np.int32)}, "chosen holds 99"
    yield good | {"lengths": ints(1)}, "it must hold at least the [2] tokens"
    yield good | {n: good[n].repeat(2, 2) for n in ("pages", "entries")}, "pages has 2 heads; it must have 1"


def _far_rules(
    q: Array, pages: Array, entries: Array, table: Array, entry_table: Array, starts: Array, lengths: Array, window: int, every: int,
    chosen: Array | None, **_: object,
) -> str | None:  # fmt: skip
    room = entry_table.shape[1] * entries.shape[1]
    return first(
        unless(pages.shape[2] == 1, f"pages has {pages.shape[2]} heads; it must have 1"),
        positive(window=window, every=every),
        rising("starts", starts, q.shape[0]),
        inside("table", table, 0, pages.shape[0]),
        inside("entry_table", entry_table, 0, entries.shape[0]),
        inside("lengths", lengths, 0, min(table.shape[1] * pages.shape[1] + 1, room * every + every)),
        inside("chosen", chosen, -1, room),
        enough_tokens(starts, lengths),
    )


def _seen_entries(entry_table: Array, **_: object) -> Array | None:
    return np.unique(entry_table) if isinstance(entry_table, np.ndarray) else None


@op(
    "q[T Hq D], pages[P S Hk D], entries[N M Hk D], table[R n]:i, entry_table[R m]:i, starts[R+1]:i, lengths[R]:i, sinks[Hq]?, "
    "chosen[T C]:i? -> [T Hq D]",
    samples=_far_samples,
    errors=_far_errors,
    tolerance=MIXED,
    check=_far_rules,
    touches={"pages": seen_pages, "entries": _seen_entries},
)
def compressed_attention(
    q: Array, pages: Array, entries: Array, table: Array, entry_table: Array, starts: Array, lengths: Array, scale: float, window: int,
    every: int, sinks: Array | None = None, chosen: Array | None = None,
) -> Array:  # fmt: skip
    """One softmax over the last `window` plain entries up to a token's own and over the compressed ones that are complete: [T Hq D].

    q [T Hq D]; pages [P S 1 D] and table [R n] of plain entries, which are keys and values; entries [N M 1 D] and entry_table [R m] of
    compressed ones, one for `every` tokens; starts [R+1], lengths [R] and sinks [Hq] as in paged_attention. A token at an index of its
    sequence sees (index + 1) // every of them, or with chosen [T C] those named there (-1: none). Scores are scaled by `scale`."""
    out, sink = np.zeros(q.shape, np.float32), -np.inf if sinks is None else wide(sinks)[:, None]
    for r, length in enumerate(lengths):
        near, far = wide(gather(pages, table[r])[:, 0]), wide(gather(entries, entry_table[r])[:, 0])
        for t in range(starts[r], starts[r + 1]):
            index = length - starts[r + 1] + t
            some = far[: (index + 1) // every] if chosen is None else far[np.sort(chosen[t][chosen[t] >= 0])]
            kv = np.concatenate([near[max(0, index - window + 1) : index + 1], some])
            weights = shares(np.einsum("hd,nd->hn", wide(q[t]), kv) * scale, sink)
            out[t] = np.einsum("hn,nd->hd", weights, kv)
    return out
