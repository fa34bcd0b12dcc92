"""From what a caller gives to a submission: every check that needs the model, before anything is queued."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError, PromptError
from vtcore.kvcache.encoder import EncoderRule
from vtcore.kvcache.identity import Identity
from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request, Submission
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.stops import StopTexts


@dataclass
class Intake:
    """What a request is held against. `tokenizer` is None for a model without text: then prompts are token ids, and outputs too."""

    vocab_size: int
    config: SchedulerConfig
    kv: KVCacheManager
    tokenizer: Any = None
    end_ids: frozenset[int] = frozenset()  # of end of sequence
    rope_grows: int = 0  # longer prompts than this give their tokens other angles; 0: none do
    _ids: Iterator[int] = field(default_factory=count)

    def take(
        self,
        prompt_token_ids: Any,
        params: SamplingParams,
        *,
        prompt: str | None = None,
        request_id: str | None = None,
        streamed: bool = True,
        keep_logits: bool = False,
        priority: int = 0,
        cache_salt: str | None = None,
        encoder_token_ids: Sequence[int] = (),
    ) -> Submission:
        """A submission that can be run to its end; ArgumentError, of a prompt PromptError, for one that can't.

        priority: the lowest goes first, under the policy of that name. cache_salt: only requests of the same salt share what the cache
        keeps. encoder_token_ids: of a model with an encoder, what that reads; the prompt is the decoder's."""
        ids = prompt_token_ids.tolist() if hasattr(prompt_token_ids, "tolist") else list(prompt_token_ids)
        total = self._total(len(ids), params)
        self._ids_known(ids)
        self._encoder_fits(encoder_token_ids)
        self._params(params)
        bad_words = self._bad_words(params)
        self._served(request_id, priority, cache_salt)
        rope = len(ids) if self.rope_grows and len(ids) > self.rope_grows else 0
        submission = Submission(
            str(next(self._ids)) if request_id is None else request_id,
            [int(i) for i in ids],
            params,
            total,
            prompt,
            frozenset() if params.ignore_eos else self.end_ids,
            bad_words,
            keep_logits,
            int(priority),
            Identity(salt=cache_salt, rope=rope),
            tuple(int(i) for i in encoder_token_ids),
            deltas=deque(maxlen=None if streamed else 0),
        )
        submission.requests = [self._request(submission, i, seed) for i, seed in enumerate(_seeds(params))]
        return submission

    def _total(self, prompt: int, params: SamplingParams) -> int:
        """Where the sequence's length ends it; PromptError where the context or the pages leave a prompt of so many tokens no room."""
        longest, room = self.config.max_model_len, 0 if params.max_tokens == 0 else 1
        if not prompt:
            raise PromptError("the prompt has no tokens; it must have at least one")
        if prompt + room > longest:
            raise PromptError(f"the prompt has {prompt} tokens; with max_model_len {longest} it may have {longest - room}")
        total = longest if params.max_tokens is None else min(longest, prompt + params.max_tokens)
        if params.min_tokens > total - prompt:
            left = longest - prompt
            raise ArgumentError(
                f"min_tokens is {params.min_tokens}; after {prompt} prompt tokens max_model_len {longest} leaves room for {left}"
            )
        needs = {n: rule.most(max(total, prompt + 1), self.config.max_num_batched_tokens) for n, rule in self.kv.groups.items()}
        for name, pool in self.kv.pools.items():
            needed = needs[name]
            if needed > pool.capacity:
                raise PromptError(
                    f"the prompt's {prompt} tokens and up to {total - prompt} generated ones need {needed} cache pages of "
                    f"{self.kv.block_size} tokens ({name}); there are {pool.capacity}: shorten one of them, or give the cache more memory"
                )
        if (short := self.kv.lacks(needs)) > 0:
            raise PromptError(
                f"the prompt's {prompt} tokens and up to {total - prompt} generated ones need {short} bytes more of cache pages than "
                "there are: shorten one of them, or give the cache more memory"
            )
        return total

    def _served(self, request_id: Any, priority: Any, cache_salt: Any) -> None:
        if request_id is not None and (not isinstance(request_id, str) or not request_id):
            raise ArgumentError(f"request_id is {request_id!r:.80}; it must be a text of at least one character, or None")
        if isinstance(priority, bool) or not isinstance(priority, (int, np.integer)):
            raise ArgumentError(f"priority is {priority!r:.80}; it must be an integer, of which the lowest goes first")
        if priority and self.config.scheduling_policy != "priority":
            raise ArgumentError(
                f"priority is {priority} and has no effect under scheduling_policy {self.config.scheduling_policy!r}: it needs 'priority'"
            )
        if cache_salt is not None and (not isinstance(cache_salt, str) or not cache_salt):
            raise ArgumentError(f"cache_salt is {cache_salt!r:.80}; it must be a text of at least one character, or None")
        if cache_salt is not None and not _utf8(cache_salt):
            raise ArgumentError(f"cache_salt is {cache_salt!a:.80}; it must be a text that UTF-8 can spell, without half a surrogate pair")

    def _encoder_fits(self, ids: Sequence[int]) -> None:
        longest = max((rule.spec.longest for rule in self.kv.groups.values() if isinstance(rule, EncoderRule)), default=0)
        if not longest and len(ids):
            raise ArgumentError("encoder_token_ids has no effect: this model has no encoder")
        if longest and not 1 <= len(ids) <= longest:
            raise PromptError(f"encoder_token_ids has {len(ids)} tokens; this model's encoder reads from 1 to {longest}")
        self._ids_known(list(ids))

    def _ids_known(self, ids: list[Any]) -> None:
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, (int, np.integer)) or not 0 <= i < self.vocab_size:
                raise PromptError(f"the prompt holds {i!r}; a token id is an integer from 0 to {self.vocab_size - 1}")

    def _params(self, params: SamplingParams) -> None:
        for name, i in params.token_ids():
            if i >= self.vocab_size:
                raise ArgumentError(f"{name} holds {i}; a token id is an integer from 0 to {self.vocab_size - 1}")
        if self.tokenizer is None and (params.stop or params.bad_words):
            raise ArgumentError(f"{'stop' if params.stop else 'bad_words'} needs a tokenizer, and this model has none; name token ids")
        for name in ("logprobs", "prompt_logprobs"):
            if (asked := getattr(params, name)) is not None and asked > self.vocab_size:
                raise ArgumentError(f"{name} is {asked}; the vocabulary has {self.vocab_size} tokens, and -1 stands for all of them")
        self._room_before_min_tokens(params)

    def _room_before_min_tokens(self, params: SamplingParams) -> None:
        """Before min_tokens no token may end the sequence; another one must be left."""
        ends = frozenset(params.stop_token_ids or ()) | (frozenset() if params.ignore_eos else self.end_ids)
        allowed = params.allowed_token_ids
        if params.min_tokens and ends.issuperset(range(self.vocab_size) if allowed is None else allowed):
            which = "all tokens of the vocabulary" if allowed is None else "all of allowed_token_ids"
            raise ArgumentError(f"min_tokens is {params.min_tokens}, and {which} end the sequence: allow another id, or lower min_tokens")

    def _bad_words(self, params: SamplingParams) -> tuple[tuple[int, ...], ...]:
        """As tokens. ArgumentError where they forbid each token that is allowed."""
        words = tuple(self._spelled(params))
        single, allowed = {word[0] for word in words if len(word) == 1}, params.allowed_token_ids
        if allowed is not None and single.issuperset(allowed):
            raise ArgumentError("bad_words forbid all of allowed_token_ids: allow another id, or forbid less")
        return words

    def _spelled(self, params: SamplingParams) -> Iterator[tuple[int, ...]]:
        """Each word as it is spelled at the start of a text, and after a space where that begins with another token."""
        for word in params.bad_words or ():
            bare = tuple(self.tokenizer.encode(word.lstrip() or word, add_special_tokens=False))
            spaced = tuple(self.tokenizer.encode(" " + word.lstrip(), add_special_tokens=False))
            yield from (ids for ids in ({bare, spaced} if spaced[:1] != bare[:1] and len(spaced) == len(bare) else {bare}) if ids)

    def _request(self, submission: Submission, index: int, seed: int) -> Request:
        params = submission.params
        text = self.tokenizer is not None and params.detokenize
        stream = self.tokenizer.stream(skip_special_tokens=params.skip_special_tokens) if text else None
        stops = StopTexts(tuple(params.stop or ()), params.include_stop_str_in_output)
        return Request(submission, index, seed, detokenizer=stream, stops=stops)


def _utf8(text: str) -> bool:
    """Whether others can read it: hashes and events are made of its bytes."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _seeds(params: SamplingParams) -> list[int]:
    """One for each of the n sequences: seed + index, as signed 64 bits."""
    seed = int.from_bytes(os.urandom(8), "little") if params.seed is None else params.seed
    return [(seed + i + (1 << 63)) % (1 << 64) - (1 << 63) for i in range(params.n)]
