"""What the engine's process answers about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from vtcore.llm import LLM


class Answers:
    """Questions by name: `to("stats")`."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        asked = (self.ping, self.info, self.stats, self.report, self.reset_prefix_cache)
        self.known: dict[str, Callable[[], Any]] = {question.__name__: question for question in asked}

    def to(self, name: str) -> Any:
        """The answer to a question, as plain data; KeyError for one that there is none to."""
        return self.known[name]()

    def ping(self) -> bool:
        """True, between two steps."""
        return True

    def info(self) -> dict[str, Any]:
        """The model's limits."""
        config = self.llm.engine.intake.config
        return {
            "max_model_len": config.max_model_len,
            "max_num_seqs": config.max_num_seqs,
            "max_num_batched_tokens": config.max_num_batched_tokens,
            "vocab_size": self.llm.engine.intake.vocab_size,
            "memory": str(self.llm.memory_plan),
        }

    def stats(self) -> dict[str, Any]:
        """Requests now, how full the cache is, and totals."""
        told = self.llm.stats()
        return {
            "running": told.running,
            "waiting": told.waiting,
            "kv_usage": told.cache.usage,
            "preemptions": told.preemptions,
            "prefix_queries": told.cache.queries,
            "prefix_hits": told.cache.hits,
            "kv_tiers": {name: asdict(tier) for name, tier in told.cache.tiers.items()},
        }

    def reset_prefix_cache(self) -> bool:
        """Forget what the cache keeps; False while requests run."""
        return self.llm.reset_prefix_cache()

    def report(self) -> Any:
        """What ran where, as the report's JSON."""
        return self.llm.report().json()
