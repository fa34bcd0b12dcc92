"""What the engine's process answers about itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from vtcore.llm import LLM
from vtcore.request import Submission


class Answers:
    """Questions by name: `to("stats")`."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm
        self.ended: Counter[str] = Counter()
        self.known: dict[str, Callable[[], Any]] = {"ping": self.ping, "info": self.info, "stats": self.stats, "report": self.report}

    def to(self, name: str) -> Any:
        """The answer to a question, as plain data; KeyError for one that there is none to."""
        return self.known[name]()

    def count(self, submission: Submission) -> None:
        """Keep what a finished request adds to the totals."""
        self.ended["preemptions"] += sum(r.num_preemptions for r in submission.requests)

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
        scheduler = self.llm.engine.scheduler
        return {
            "running": len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "kv_usage": scheduler.kv.usage,
            "preemptions": self.ended["preemptions"],
        }

    def report(self) -> Any:
        """What ran where, as the report's JSON."""
        return self.llm.report().json()
