"""Looking at a model's layers while it runs: the model itself is not changed, and computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vtcore.kvcache.cache import Cache, Key, Spec
from vtcore.models.batch import Batch, Output
from vtcore.models.decoder import Decoder
from vtcore.oracle.recording import Array


class Observed:
    """A model that notes what each layer gives, forward by forward. It must see one request at a time, and every step: no replays."""

    def __init__(self, model: Decoder) -> None:
        self.model, self.layers = model, [w.index for w in model.layers]
        self._kept: dict[int, list[Array]] = {i: [] for i in self.layers}

    def specs(self) -> dict[Key, Spec]:
        """The model's own."""
        return self.model.specs()

    def __call__(self, batch: Batch, cache: Cache) -> Output:
        out = self.model(replace(batch, keep=frozenset(self.layers)), cache)
        for i, x in out.kept.items():
            self._kept[i].append(x.numpy().reshape(x.shape[0], -1).copy())
        return out

    def take(self) -> Array:
        """float32 [layers, T, width] of all forwards since the last time."""
        whole = np.stack([np.concatenate(self._kept[i]) for i in self.layers])
        for parts in self._kept.values():
            parts.clear()
        return whole
