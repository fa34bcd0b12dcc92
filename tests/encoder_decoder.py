"""A tiny transformer with an encoder and a decoder that attends to it, as BART's: over the ops, and once more in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore import ops, tensor
from vtcore.kvcache.cache import Cache, Key, Paged, Spec
from vtcore.models.batch import Batch, Output

HIDDEN, HEADS, LAYERS, VOCAB, LONGEST = 32, 2, 2, 61, 24
WIDTH = HIDDEN // HEADS
SCALE = WIDTH**-0.5
SHAPES = {"k": (HEADS, WIDTH), "v": (HEADS, WIDTH)}
SPECS: dict[Key, Spec] = {(i, "kv"): Paged(SHAPES, heads=True) for i in range(LAYERS)}
SPECS |= {(i, "cross"): Paged(SHAPES, of="encoder", longest=LONGEST, heads=True) for i in range(LAYERS)}


def drawn() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    blocks = [f"encoder {x}" for x in ("q", "k", "v", "o", "up", "down")]
    blocks += [f"{i} {x}" for i in range(LAYERS) for x in ("q", "k", "v", "o", "cross q", "cross k", "cross v", "cross o", "up", "down")]
    weights = {name: rng.normal(0, 0.25, (HIDDEN, HIDDEN)).astype(np.float32) for name in blocks}
    return weights | {n: rng.normal(0, 1, (m, HIDDEN)).astype(np.float32) for n, m in (("embed", VOCAB), ("place", 96), ("side", LONGEST))}


class EncoderDecoder:
    """What a Runner runs. `encoded` counts the encoder's tokens."""

    def __init__(self) -> None:
        self.weights = {name: tensor.of(w) for name, w in drawn().items()}
        self.encoded = 0

    def __call__(self, batch: Batch, cache: Cache) -> Output:
        w, e = self.weights, batch.encoder
        x = ops.add(ops.embedding(w["embed"], batch.tokens), ops.embedding(w["place"], batch.positions))
        said = None
        if e.tokens.shape[0]:
            self.encoded += e.tokens.shape[0]
            said = ops.add(ops.embedding(w["embed"], e.tokens), ops.embedding(w["side"], e.positions))
            q, k, v = (self._heads(said, f"encoder {n}") for n in "qkv")
            said = self._block(said, ops.attention(q, k, v, e.runs, SCALE), "encoder")
        for i in range(LAYERS):
            kv, cross = (cache.view(i, name, batch.groups) for name in ("kv", "cross"))
            x = ops.add(x, self._attend(x, x, kv, f"{i} ", batch.starts, batch.lengths, batch.until))
            x = self._block(x, self._attend(x, said, cross, f"{i} cross ", e.starts, e.lengths, e.until), str(i), project=False)
        return Output(ops.linear(ops.embedding(x, batch.rows), w["embed"]), x, {})

    def _heads(self, x, name):
        return ops.linear(x, self.weights[name]).reshape(x.shape[0], HEADS, WIDTH)

    def _attend(self, x, source, view, name, starts, lengths, until):
        if source is not None:
            for n in "kv":
                ops.write_pages(view[n], self._heads(source, name + n), view.group.slots)
        y = ops.paged_attention(self._heads(x, name + "q"), view["k"], view["v"], view.group.table, starts, lengths, until, SCALE)
        return ops.linear(y.reshape(x.shape), self.weights[name + "o"])

    def _block(self, x, y, name, project=True):
        y = ops.linear(y.reshape(x.shape), self.weights[f"{name} o"]) if project else y
        x = ops.rms_norm(ops.add(x, y), None, 1e-5)
        up = ops.relu(ops.linear(x, self.weights[f"{name} up"]))
        return ops.rms_norm(ops.add(x, ops.linear(up, self.weights[f"{name} down"])), None, 1e-5)


def plain(encoder: list[int], tokens: list[int]) -> Any:
    """Logits [T, VOCAB] of a decoder's tokens beside an encoder's, in float64 and in one piece, without pages."""
    w = {name: a.astype(np.float64) for name, a in drawn().items()}

    def norm(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def attend(x, source, name, causal):
        q, k, v = ((s @ w[name + n].T).reshape(len(s), HEADS, WIDTH) for s, n in ((x, "q"), (source, "k"), (source, "v")))
        scores = np.einsum("thd,nhd->htn", q, k) * SCALE
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return np.einsum("htn,nhd->thd", shares, v).reshape(x.shape) @ w[name + "o"].T

    def block(x, y, name):
        x = norm(x + y)
        return norm(x + np.maximum(x @ w[f"{name} up"].T, 0) @ w[f"{name} down"].T)

    said = w["embed"][encoder] + w["side"][: len(encoder)]
    said = block(said, attend(said, said, "encoder ", False), "encoder")
    x = w["embed"][tokens] + w["place"][: len(tokens)]
    for i in range(LAYERS):
        x = x + attend(x, x, f"{i} ", True)
        x = block(x, attend(x, said, f"{i} cross ", False), str(i))
    return x @ w["embed"].T
