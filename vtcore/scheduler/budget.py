"""What a step may still hand out."""

from __future__ import annotations

from vtcore.request import Request
from vtcore.scheduler.config import SCORED, SchedulerConfig


class Budget:
    """Tokens of all sequences, and of them those whose logits are all wanted. `prefills` of the `requests` want more than one token; as
    many of them as may go over more than one step at once share the step."""

    def __init__(self, config: SchedulerConfig, prefills: int, requests: int) -> None:
        self.config = config
        self.tokens, self.scored = config.max_num_batched_tokens, SCORED
        self.most = config.max_num_batched_tokens
        if (several := min(prefills, config.max_num_partial_prefills)) > 1:
            self.most = -(-self.tokens // several)
        if config.long_prefill_token_threshold and requests > 1:
            self.most = min(self.most, config.long_prefill_token_threshold)
        self.partial = self.long = 0  # prefills that this step doesn't bring to their ends

    def offer(self, request: Request, left: int) -> int:
        """How many of the tokens that are left to it a sequence may compute."""
        n = min(left, self.tokens, self.most)
        return min(n, self.scored) if request.wants_all_logits else n

    def refuses(self, request: Request, left: int) -> str | None:
        """Why a sequence with so many tokens left may not begin, though others may; in words."""
        tokens = self.offer(request, left)
        if tokens == left:
            return None
        if not tokens:
            return self.spent
        if left > self.config.long and self.long >= self.config.max_long_partial_prefills:
            return f"max_long_partial_prefills, {self.config.max_long_partial_prefills}, are within their prompts"
        if self.partial >= self.config.max_num_partial_prefills:
            return f"max_num_partial_prefills, {self.config.max_num_partial_prefills}, are within their prompts"
        return None

    def spend(self, request: Request, tokens: int, sign: int = 1) -> None:
        """They are handed out; with a sign of -1, given back."""
        self.tokens -= sign * tokens
        if request.wants_all_logits:
            self.scored -= sign * tokens
        if (left := request.num_waiting_tokens - tokens) > 0:
            self.partial += sign
            self.long += sign * (left + tokens > self.config.long)

    @property
    def spent(self) -> str:
        """Why nothing is left for the one that asked, in words."""
        if not self.tokens:
            return f"max_num_batched_tokens, {self.config.max_num_batched_tokens}, is spent"
        return f"{SCORED} tokens are scored already"
