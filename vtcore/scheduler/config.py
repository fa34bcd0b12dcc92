"""The limits of one step, and who goes first."""

from __future__ import annotations

from dataclasses import dataclass

from vtcore.errors import ArgumentError, nearest
from vtcore.scheduler.policies import POLICIES

SCORED = 64  # tokens of prompts whose logits are all wanted, in one step: a row of logits is as wide as the vocabulary
LONG = 0.04  # of max_model_len: where a prompt is long if nothing else is said, and several may be within their prompts


@dataclass(frozen=True)
class SchedulerConfig:
    """vLLM's names. A prefill is a sequence within its prompt; a long one has more than long_prefill_token_threshold tokens to go."""

    max_num_seqs: int = 16  # sequences that run at once
    max_num_batched_tokens: int = 2048  # tokens of one forward
    max_model_len: int = 2048  # tokens of one sequence, prompt and output
    scheduling_policy: str = "fcfs"
    long_prefill_token_threshold: int = 0  # tokens of one prefill in one step, while others wait; 0: no limit of its own
    max_num_partial_prefills: int = 1  # prefills that may go over more than one step at once
    max_long_partial_prefills: int = 1  # of them, long ones
    max_num_queued_reqs: int | None = None  # sequences that may wait, besides those that can run
    max_num_queued_tokens: int | None = None  # the same in tokens of their prompts
    async_scheduling: bool = False  # the next step is planned while one computes
    priority_preemption_threshold: int | None = None  # who waits may preempt whose priority is over this much behind; None: nobody

    @property
    def max_logits_rows(self) -> int:
        """The most rows of logits that a step asks a model for: one a sequence, and some of prompts that are scored."""
        return self.max_num_seqs + SCORED

    @property
    def long(self) -> int:
        """A prefill with more tokens to go than this is long."""
        return self.long_prefill_token_threshold or int(self.max_model_len * LONG)

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len", "max_num_partial_prefills", "max_long_partial_prefills"):
            _integer(name, getattr(self, name), 1)
        _integer("long_prefill_token_threshold", self.long_prefill_token_threshold, 0)
        for name, least in (("max_num_queued_reqs", 1), ("max_num_queued_tokens", 1), ("priority_preemption_threshold", 0)):
            if getattr(self, name) is not None:
                _integer(name, getattr(self, name), least)
        if not isinstance(self.async_scheduling, bool):
            raise ArgumentError(f"async_scheduling is {self.async_scheduling!r:.80}; it must be True or False")
        if (policy := self.scheduling_policy) not in tuple(POLICIES):
            raise ArgumentError(f"scheduling_policy is {policy!r:.80}{nearest(policy, POLICIES)}; it must be one of {', '.join(POLICIES)}")
        self._together()

    def _together(self) -> None:
        """What only two limits together can get wrong."""
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ArgumentError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}; it must be at least max_num_seqs, which is {self.max_num_seqs}, "
                "so that every running sequence gets a token in a step"
            )
        if self.long_prefill_token_threshold > self.max_model_len:
            raise ArgumentError(
                f"long_prefill_token_threshold is {self.long_prefill_token_threshold} and has no effect: no prompt is longer than "
                f"max_model_len, {self.max_model_len}"
            )
        most = "max_num_batched_tokens" if self.max_num_batched_tokens < self.max_model_len else "max_model_len"
        told_apart = self.max_long_partial_prefills < self.max_num_partial_prefills
        if self.long_prefill_token_threshold >= getattr(self, most) and not told_apart:
            raise ArgumentError(
                f"long_prefill_token_threshold is {self.long_prefill_token_threshold} and has no effect: a step has no more of a prompt "
                f"than {most}, {getattr(self, most)}, and while max_long_partial_prefills is not below max_num_partial_prefills no long "
                "prompts are told apart"
            )
        for name, most in (("max_long_partial_prefills", "max_num_partial_prefills"), ("max_num_partial_prefills", "max_num_seqs")):
            if getattr(self, name) > getattr(self, most):
                raise ArgumentError(f"{name} is {getattr(self, name)}; more than {most}, {getattr(self, most)}, would have no effect")
        if self.priority_preemption_threshold is not None and self.scheduling_policy != "priority":
            raise ArgumentError(
                f"priority_preemption_threshold is {self.priority_preemption_threshold} and has no effect under scheduling_policy "
                f"{self.scheduling_policy!r}: it needs 'priority'"
            )


def _integer(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name} is {value!r}; it must be an integer of at least {least}")
