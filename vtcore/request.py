"""A request on its way through the engine: a submission, and its sequences, each of which the scheduler plans by itself."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from vtcore.kvcache.chain import Chain
from vtcore.kvcache.identity import PLAIN, Identity
from vtcore.outputs import CompletionOutput, Delta, Logprobs, RequestOutput, Timings
from vtcore.sampling_params import SamplingParams
from vtcore.stops import StopTexts

Array = np.ndarray[Any, Any]


class Status(Enum):
    """Where a sequence is; the finished ones carry the finish_reason."""

    WAITING = None
    RUNNING = "running"
    PREEMPTED = "preempted"
    STOPPED = "stop"
    LENGTH_CAPPED = "length"
    ABORTED = "abort"


FINISHED = frozenset({Status.STOPPED, Status.LENGTH_CAPPED, Status.ABORTED})


@dataclass(eq=False)
class Request:
    """One sequence: its tokens, how many of them the cache holds once all that was launched is done (`num_computed_tokens`), and how its
    next one is chosen."""

    submission: Submission
    index: int
    seed: int
    output_token_ids: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    promised: int = 0  # tokens that the step in flight will choose for it: 0 or 1
    num_preemptions: int = 0
    num_cached_tokens: int | None = None  # that it found in the cache when it began; None: it has not begun
    chain: Chain | None = None  # the keys of its content; None where the cache keeps nothing
    arrival: int = 0  # its number in the order of coming
    begun_before: int = 0  # sequences that had begun when it came
    overtaken: int = 0  # sequences that have begun since
    status: Status = Status.WAITING
    stop_reason: int | str | None = None
    text: str = ""
    logprobs: list[Logprobs] = field(default_factory=list)
    detokenizer: Any = None  # of Tokenizer.stream; None without text
    stops: StopTexts = field(default_factory=lambda: StopTexts((), False))
    _array: Array = field(default_factory=lambda: np.zeros(0, np.int64))  # of output_token_ids, as far as it was asked for

    @property
    def prompt_token_ids(self) -> list[int]:
        return self.submission.prompt_token_ids

    @property
    def params(self) -> SamplingParams:
        return self.submission.params

    @property
    def num_tokens(self) -> int:
        """Of prompt and output so far."""
        return len(self.prompt_token_ids) + len(self.output_token_ids)

    @property
    def num_expected_tokens(self) -> int:
        """The same once the step in flight is done."""
        return self.num_tokens + self.promised

    @property
    def ending(self) -> bool:
        """Whether the step in flight brings it to where its length ends it, whatever token is chosen."""
        if self.promised:
            return self.num_expected_tokens >= self.submission.max_total_tokens
        return not self.samples and self.num_computed_tokens == self.num_tokens

    @property
    def num_waiting_tokens(self) -> int:
        """Tokens that a forward has still to compute, after the one in flight, before the next one can be chosen."""
        if self.promised:
            return 0 if self.ending else self.num_expected_tokens - self.num_computed_tokens
        return self.num_tokens - self.num_computed_tokens

    @property
    def finished(self) -> bool:
        return self.status in FINISHED

    def tokens(self, begin: int, end: int) -> list[int]:
        """Token ids [begin, end) of prompt and output together."""
        n = len(self.prompt_token_ids)
        return self.prompt_token_ids[begin:end] + self.output_token_ids[max(0, begin - n) : max(0, end - n)]

    @property
    def samples(self) -> bool:
        """Whether another token is to be chosen once all known ones are computed."""
        return self.params.max_tokens != 0

    def first_wanted_token(self, begin: int) -> int:
        """From which token on, of those from `begin`, logits are wanted: of a prompt that is scored all, else of the last known one."""
        if self.submission.keep_logits:
            return max(begin, sum(map(len, self.submission.logits)))
        if self.wants_all_logits:
            return max(begin, len(self.submission.prompt_logprobs) - 1)
        return self.num_expected_tokens - self.samples

    @property
    def wants_all_logits(self) -> bool:
        """Whether logits are wanted of every token that a forward computes, and not of the last one only."""
        if self.submission.keep_logits:
            return True
        return self.scores_prompt and len(self.submission.prompt_logprobs) < len(self.prompt_token_ids)

    @property
    def reads_cache(self) -> bool:
        """Whether it may take over what others computed: not where the logits of every token of its prompt are wanted."""
        asked = self.params.skip_reading_prefix_cache
        return not (self.wants_all_logits if asked is None else asked or self.wants_all_logits)

    @property
    def scores_prompt(self) -> bool:
        """Whether this is the sequence that prompt_logprobs are taken from: the first one."""
        return self.params.prompt_logprobs is not None and not self.index

    def output_array(self) -> Array:
        """output_token_ids as an array [n]; what is new of them is converted."""
        self._array = np.concatenate([self._array, np.array(self.output_token_ids[len(self._array) :], np.int64)])
        return self._array

    def early_ends(self) -> frozenset[int]:
        """Ids that would end the sequence before min_tokens."""
        early = len(self.output_token_ids) < self.params.min_tokens
        return self.submission.end_ids.union(self.params.stop_token_ids or ()) if early else frozenset()

    def ends_of_bad_words(self) -> set[int]:
        """Ids that would complete a bad word now."""
        done = self.output_token_ids
        return {w[-1] for w in self.submission.bad_words if len(w) <= len(done) + 1 and list(w[:-1]) == done[len(done) - len(w) + 1 :]}

    def completion(self) -> CompletionOutput:
        """What it has generated so far."""
        asked = self.params.logprobs is not None
        total = sum(chosen[token].logprob for token, chosen in zip(self.output_token_ids, self.logprobs, strict=True)) if asked else None
        reason = str(self.status.value) if self.finished else None
        return CompletionOutput(
            self.index, self.text, list(self.output_token_ids), total, list(self.logprobs) if asked else None, reason, self.stop_reason
        )


@dataclass(eq=False)
class Submission:
    """What a caller handed in, the sequences that come of it, and the deltas that nobody has read yet."""

    request_id: str
    prompt_token_ids: list[int]
    params: SamplingParams
    max_total_tokens: int  # of prompt and output: where the length ends a sequence
    prompt: str | None = None
    end_ids: frozenset[int] = frozenset()  # of end of sequence; empty under ignore_eos
    bad_words: tuple[tuple[int, ...], ...] = ()
    keep_logits: bool = False
    priority: int = 0  # the lowest goes first, under the policy of that name
    identity: Identity = PLAIN
    encoder_token_ids: tuple[int, ...] = ()  # what an encoder reads, beside the prompt that the decoder goes on from
    requests: Sequence[Request] = ()
    deltas: deque[Delta] = field(default_factory=deque)
    prompt_logprobs: list[Logprobs | None] = field(default_factory=lambda: [None])
    logits: list[Array] = field(default_factory=list)  # float32 [n, V] a chunk, under keep_logits
    submitted: float = field(default_factory=time.monotonic)
    first_scheduled: float | None = None
    first_token: float | None = None
    ended: float | None = None
    fault: Exception | None = None  # what ended it, where that was neither its tokens nor who asked

    @property
    def finished(self) -> bool:
        return all(r.finished for r in self.requests)

    @cached_property
    def prompt_array(self) -> Array:
        """prompt_token_ids as an array."""
        return np.array(self.prompt_token_ids, np.int64)

    @cached_property
    def allowed_array(self) -> Array:
        """allowed_token_ids as an array; empty where all are allowed."""
        return np.array(self.params.allowed_token_ids or (), np.int64)

    @cached_property
    def biases(self) -> tuple[Array, Array]:
        """The ids of logit_bias, rising, and their values."""
        biases = sorted((self.params.logit_bias or {}).items())
        return np.array([i for i, _ in biases], np.int32), np.array([value for _, value in biases], np.float32)

    def raise_fault(self) -> None:
        """Raises what ended it, where that was a fault."""
        if self.fault is not None:
            raise self.fault

    def timings(self) -> Timings:
        """What it took so far."""
        scheduled, token, ended = (None if t is None else t - self.submitted for t in (self.first_scheduled, self.first_token, self.ended))
        spent = None if self.first_token is None or self.ended is None else self.ended - self.first_token
        longest = max(len(r.output_token_ids) for r in self.requests)
        return Timings(scheduled, token, ended, (longest - 1) / spent if spent else None, sum(r.num_preemptions for r in self.requests))

    def output(self) -> RequestOutput:
        """All of it so far, in vLLM's form. Raises what ended it, where that was a fault."""
        self.raise_fault()
        asked = self.params.prompt_logprobs is not None
        return RequestOutput(
            self.request_id,
            self.prompt,
            list(self.prompt_token_ids),
            [r.completion() for r in self.requests],
            self.finished,
            list(self.prompt_logprobs) if asked else None,
            self.timings(),
            self.requests[0].num_cached_tokens,
        )
