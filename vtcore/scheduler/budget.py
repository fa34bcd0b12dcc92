"""What a step may still hand out."""

from __future__ import annotations

from vtcore.request import Request
from vtcore.scheduler.config import SCORED, SchedulerConfig


class Budget:
    """Tokens of all sequences, and of them those whose logits are all wanted."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.config = config
        self.tokens, self.scored = config.max_num_batched_tokens, SCORED

    def offer(self, request: Request) -> int:
        """How many of its waiting tokens a sequence may compute."""
        n = min(request.num_waiting_tokens, self.tokens)
        return min(n, self.scored) if request.wants_all_logits else n

    def spend(self, request: Request, tokens: int) -> None:
        """They are handed out."""
        self.tokens -= tokens
        self.scored -= tokens if request.wants_all_logits else 0

    @property
    def spent(self) -> str:
        """Why nothing is left for the one that asked, in words."""
        if not self.tokens:
            return f"max_num_batched_tokens, {self.config.max_num_batched_tokens}, is spent"
        return f"{SCORED} tokens are scored already"
