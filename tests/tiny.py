"""Small things to run an engine on: a byte tokenizer, a model that says what it is told to, and an engine around any model."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from vtcore.dispatch import Dispatcher
from vtcore.engine import Engine
from vtcore.intake import Intake
from vtcore.kvcache.cache import Cache, Paged, Spec
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import KVCacheManager
from vtcore.models.batch import Batch, Output
from vtcore.ops import add, embedding, write_pages
from vtcore.providers import reference
from vtcore.runner import Runner
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.scheduler import Scheduler
from vtcore.tensor import of

EOS = 256
SCORED = SamplingParams(temperature=0, max_tokens=0)  # nothing is generated


class Bytes:
    """A token a byte; 256 ends the sequence, and has the text <eos>."""

    vocab_size = 257
    eos_ids = frozenset({EOS})

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        stream = self.stream(skip_special_tokens)
        return "".join(stream.push(i) for i in ids) + stream.finish()

    def stream(self, skip_special_tokens: bool = True) -> Any:
        return _Stream(skip_special_tokens)


class _Stream:
    def __init__(self, skip: bool) -> None:
        self.decoder, self.skip = codecs.getincrementaldecoder("utf-8")("replace"), skip

    def push(self, i: int) -> str:
        if i >= EOS:
            return "" if self.skip else "<eos>"
        return self.decoder.decode(bytes([i]))

    def finish(self) -> str:
        return self.decoder.decode(b"", final=True)


class Script:
    """At position p the likeliest next token is script[p]; beyond it all are alike. It keeps an entry for each token, as models do."""

    def __init__(self, script: bytes | list[int] = b"", vocab: int = 257, length: int = 256, strength: float = 8.0) -> None:
        table = np.zeros((length, vocab), np.float32)
        table[np.arange(len(script)), list(script)] = strength
        self.table, self.calls = of(table), 0
        self.before: Callable[[Batch], None] = lambda batch: None  # a place to raise

    def specs(self) -> dict[tuple[int, str], Spec]:
        return {(0, "kv"): Paged({"k": (1, 1)})}

    def __call__(self, batch: Batch, cache: Cache) -> Output:
        self.calls += 1
        self.before(batch)
        x = embedding(self.table, batch.positions)
        kv = cache.view(0, "kv", batch.groups)
        write_pages(kv["k"], add(x, x)[:, :1].reshape(x.shape[0], 1, 1), kv.group.slots)
        return Output(embedding(x, batch.rows), x, {})


def engine(
    model: Any, *, pages: int = 65, block_size: int = 4, vocab: int = 257, tokenizer: Any = None, providers: Any = None, **limits: Any
) -> Engine:
    """An engine on the reference provider."""
    caching = {f.name: limits.pop(f.name) for f in fields(CacheConfig) if f.name in limits}
    config = SchedulerConfig(**{"max_num_seqs": 8, "max_num_batched_tokens": 64, "max_model_len": 128, **limits})
    cache = Cache(model.specs(), pages, block_size)
    kv = KVCacheManager(cache.groups, cache.pages, CacheConfig(block_size, **caching))
    intake = Intake(vocab, config, kv, tokenizer, frozenset({EOS}) if tokenizer else frozenset())
    return Engine(Runner(model, cache, kv), Scheduler(config, kv), intake, Dispatcher(providers or [reference.provider]))


def drain(e: Engine) -> list[Any]:
    """Step until nothing is left: all deltas."""
    deltas = []
    while not e.idle:
        deltas += e.step()
    return deltas


def all_logits(e: Engine, prompts: Iterable[Sequence[int]]) -> list[bytes]:
    """The logits of every token of each prompt, the prompts together: their bits."""
    submissions = [e.submit(p, SCORED, keep_logits=True) for p in prompts]
    drain(e)
    return [np.concatenate(s.logits).tobytes() for s in submissions]
