"""Scales for keys and values in 8-bit floats, where a checkpoint has none: found at load from one fixed prompt, so that no request's bits
hang on what others asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, isfinite, log2

import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.engine import Engine
from vtcore.errors import ArgumentError
from vtcore.intake import Intake
from vtcore.kvcache.cache import Cache, View
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import KVCacheManager
from vtcore.memory_plan import Needs, plan_memory
from vtcore.models.decoder import Decoder
from vtcore.models.kept import Kept, Scales
from vtcore.op import Array
from vtcore.rounding import Rounding
from vtcore.runner import Runner
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.scheduler import Scheduler

KEYS, VALUES = 200, 100  # vLLM's constants: a scale is the largest magnitude by that, or more, so that e4m3's 448 leaves room
TOKENS, STEP, PAGE = 128, 7919, 16  # of the prompt; its ids are so far apart (a prime), so that they are all over the vocabulary
Order = Callable[[str, tuple[int, ...]], tuple[int, ...] | None]


@dataclass(frozen=True)
class Watched(Kept):
    """Keeps everything as it is, and the largest magnitudes of each layer's keys and values."""

    largest: dict[int, Scales] = field(default_factory=dict)

    def write(self, layer: int, kv: View, k: Array, v: Array) -> None:
        seen = [float(np.abs(x.numpy().astype(np.float32)).max(initial=0)) for x in (k, v)]
        before = self.largest.get(layer, (0.0, 0.0))
        self.largest[layer] = max(before[0], seen[0]), max(before[1], seen[1])
        super().write(layer, kv, k, v)


def calculated(model: Decoder, forward: Dispatcher | Rounding, dispatcher: Dispatcher, vocab: int, order: Order) -> Kept:
    """How the model's keys and values are kept, with scales for the layers that the checkpoint has none of.

    Raises ArgumentError where it has those of every layer."""
    kept, watched = model.kept, Watched()
    model.kept = watched
    try:
        _run(_engine(model, forward, dispatcher, vocab, order), vocab)
    finally:
        model.kept = kept
    lacking = watched.largest.keys() - kept.scales.keys()
    if not lacking:
        raise ArgumentError("calculate_kv_scales has no effect: the checkpoint has the scales of every layer; leave it away")
    found = {layer: (_scale(k, KEYS), _scale(v, VALUES)) for layer, (k, v) in watched.largest.items() if layer in lacking}
    return Kept(kept.name, {**kept.scales, **found})


def _engine(model: Decoder, forward: Dispatcher | Rounding, dispatcher: Dispatcher, vocab: int, order: Order) -> Engine:
    """One for the prompt alone, with a cache that is as large."""
    tokens = min(TOKENS + 1, model.config.max_model_len)
    config, caching = SchedulerConfig(1, tokens, tokens), CacheConfig(PAGE, enable_prefix_caching=False)
    pages = plan_memory(Needs(0, 0, 0, vocab), model.specs(), config, caching).pages
    cache = Cache(model.specs(), pages, PAGE, layout=order)
    kv = KVCacheManager(cache.groups, cache.pages, caching)
    intake = Intake(vocab, config, kv, None, frozenset(), model.rope_grows)
    return Engine(Runner(model, cache, kv), Scheduler(config, kv), intake, forward, dispatcher)


def _run(engine: Engine, vocab: int) -> None:
    length = max(1, min(TOKENS, engine.scheduler.config.max_model_len - 1))
    engine.submit([1 + i * STEP % max(1, vocab - 1) for i in range(length)], SamplingParams(temperature=0, max_tokens=1))
    while not engine.idle:
        engine.step()
    engine.close()


def _scale(largest: float, by: int) -> float:
    """A power of two, so that dividing by it rounds nothing, the next above; 1 where there is nothing to go by."""
    return min(2.0**127, max(2.0**-126, 2.0 ** ceil(log2(largest / by)))) if isfinite(largest) and largest > 0 else 1.0
