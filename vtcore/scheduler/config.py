"""The limits of one step."""

from __future__ import annotations

from dataclasses import dataclass

from vtcore.errors import ArgumentError

SCORED = 64  # tokens of prompts whose logits are all wanted, in one step: a row of logits is as wide as the vocabulary


@dataclass(frozen=True)
class SchedulerConfig:
    """vLLM's names."""

    max_num_seqs: int = 16  # sequences that run at once
    max_num_batched_tokens: int = 512  # tokens of one forward
    max_model_len: int = 2048  # tokens of one sequence, prompt and output

    @property
    def max_logits_rows(self) -> int:
        """The most rows of logits that a step asks a model for: one a sequence, and some of prompts that are scored."""
        return self.max_num_seqs + SCORED

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"{name} is {value!r}; it must be an integer of at least 1")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ArgumentError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}; it must be at least max_num_seqs, which is {self.max_num_seqs}, "
                "so that every running sequence gets a token in a step"
            )
