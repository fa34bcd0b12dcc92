"""Which entries of a cache each token looks at, where a family lets a small indexer choose (DeepSeek sparse attention)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Array, Call, op
from vtcore.ops.attention import gather, seen_pages
from vtcore.ops.exact import wide
from vtcore.ops.inputs import cut, normal, ones, paged, sixteen
from vtcore.ops.rules import first, inside, positive, rising, unless


def _call(
    rng: np.random.Generator, tokens: tuple[int, ...], lengths: tuple[int, ...], heads: int, width: int, page: int, **other: int
) -> Call:
    """Keys of one head in the pages of a batch; k, every and scale beside."""
    batch = paged(rng, tokens, lengths, (heads, 1), (width, 1), page, other.pop("idle", 0))
    call = {n: batch[n] for n in ("q", "table", "starts", "lengths")} | {"keys": batch["k_pages"][:, :, 0], "scale": width**-0.5}
    return call | {"weights": normal(rng, batch["q"].shape[0], heads), "k": 4, "every": 1} | other


def _samples(rng: np.random.Generator) -> Iterator[Call]:
    yield _call(rng, (1,), (1,), 1, 1, 1)
    yield _call(rng, (1, 1, 1), (60, 1, 9), 64, 128, 16, k=16)
    yield _call(rng, (7, 0, 3, 0), (7, 0, 30, 7), 16, 33, 4, k=5, idle=2)
    yield _call(rng, (), (), 2, 16, 4)
    yield _call(rng, (9, 2), (40, 21), 5, 24, 8, k=3, every=4)
    yield _call(rng, (6,), (6,), 3, 8, 4, k=2, every=8)
    base = _call(rng, (6, 1), (11, 20), 17, 40, 4, k=6)
    yield base | {"keys": np.zeros_like(base["keys"])}
    yield base | {"scale": 0.0}
    yield base | {"q": cut(base["q"].reshape(7, 680)).reshape(7, 17, 40), "weights": cut(base["weights"]), "k": 50}
    yield base | {"keys": np.ascontiguousarray(base["keys"].swapaxes(1, 2)).swapaxes(1, 2)}
    yield from sixteen(base)


def _errors() -> Iterator[tuple[Call, str]]:
    good = _call(np.random.default_rng(0), (2,), (5,), 4, 8, 4)
    yield good | {"weights": ones(2, 3)}, "axis H of weights"
    yield good | {"k": 0}, "k is 0; it must be over 0"
    yield good | {"every": 0}, "every is 0; it must be over 0"
    yield good | {"table": good["table"] + 99}, "table holds"
    yield good | {"starts": good["starts"] + 1}, "starts holds 3"
    yield (
        good | {"lengths": good["lengths"] + 99},
        "lengths is [104]; it must hold at most the 12 tokens of whose entries the table names pages",
    )


def _rules(q: Array, keys: Array, table: Array, starts: Array, lengths: Array, k: int, every: int, **_: object) -> str | None:
    return first(
        positive(k=k, every=every),
        rising("starts", starts, q.shape[0]),
        inside("table", table, 0, keys.shape[0]),
        _room(lengths, table.shape[1] * keys.shape[1] * every + every - 1, every),
        enough_tokens(starts, lengths),
    )


def _room(lengths: Array, most: int, every: int) -> str | None:
    if not isinstance(lengths, np.ndarray):
        return None
    wrong = f"lengths is {lengths.tolist()}; it must hold at most the {most} tokens of whose entries the table names pages"
    return first(inside("lengths", np.minimum(lengths, 0), 0, 1), unless(bool((lengths <= most).all()), wrong))


def enough_tokens(starts: Array, lengths: Array) -> str | None:
    """A request has at least the tokens that are its rows."""
    if not isinstance(starts, np.ndarray) or not isinstance(lengths, np.ndarray):
        return None
    wrong = f"lengths is {lengths.tolist()}; it must hold at least the {np.diff(starts).tolist()} tokens that starts gives each request"
    return unless(bool((lengths >= np.diff(starts)).all()), wrong)


@op(
    "q[T H D], weights[T H], keys[P S D], table[R n]:i, starts[R+1]:i, lengths[R]:i -> [T k]:i",
    samples=_samples,
    errors=_errors,
    check=_rules,
    touches={"keys": seen_pages},
)
def choose_entries(
    q: Array, weights: Array, keys: Array, table: Array, starts: Array, lengths: Array, k: int, every: int = 1, scale: float = 1.0
) -> Array:
    """The k entries of each token with the largest sum over heads of weight * relu(scale * q . key), the best first: [T k], -1 for none.

    q [T H D], weights [T H], keys [P S D] of one head for all. table [R n], starts [R+1] and lengths [R] as in paged_attention; there is an
    entry for every `every` tokens, and a token at an index of its sequence chooses among the (index + 1) // every that are complete.
    Equals go to the earlier entry; NaN comes last. A row of no request has -1 alone. DeepSeek-V3.2, 2025."""
    out = np.full((q.shape[0], k), -1, np.int32)
    for r, length in enumerate(lengths):
        held = wide(gather(keys, table[r]))
        for t in range(starts[r], starts[r + 1]):
            ready = held[: (length - starts[r + 1] + t + 1) // every]
            scores = (np.maximum(np.einsum("nd,hd->nh", ready, wide(q[t])) * scale, 0) * wide(weights[t])).sum(-1)
            best = np.argsort(-scores, kind="stable")[:k]
            out[t, : len(best)] = best
    return out
