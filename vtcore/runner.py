"""One forward for a plan: its integer arrays, the model, and the rows of logits that somebody wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import Any

import numpy as np

from vtcore.kvcache.cache import Cache, Group
from vtcore.kvcache.encoder import EncoderRule
from vtcore.kvcache.manager import KVCacheManager
from vtcore.models.batch import Batch, Encoder, Output
from vtcore.ops import argmax
from vtcore.plans import Plans
from vtcore.scheduler.plan import Plan, Scheduled
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
ENCODER = tuple(f"encoder {f.name}" for f in fields(Encoder))
Model = Callable[[Batch, Cache], Output]
SLOTS = " slots"  # after a group's name


@dataclass(frozen=True)
class Wanted:
    """The rows of logits [first, first + count) that a sequence wants: of its tokens from `begin` on, which stand in the batch at `at`."""

    scheduled: Scheduled
    first: int
    begin: int
    at: int
    count: int
    samples: bool  # the last row is that of the sequence's last token, from which the next one is to be chosen

    @property
    def rows(self) -> range:
        """Of the logits."""
        return range(self.first, self.first + self.count)

    @property
    def scores(self) -> bool:
        """Whether they are wanted for what they say, besides the last one for what to choose."""
        request = self.scheduled.request
        return request.submission.keep_logits or (request.scores_prompt and self.begin < len(request.prompt_token_ids) - 1)


@dataclass(frozen=True)
class Prepared:
    """A plan in numbers, and what must be copied before it: all that its forward needs of the scheduler and the cache's tables, which go
    on to the next step while it computes."""

    plan: Plan
    wanted: tuple[Wanted, ...]
    copies: tuple[tuple[str, int, int], ...]  # a group's name, from which page, into which
    arrays: Mapping[str, Array]

    def fill(self) -> Prepared:
        """Write the tokens: the last thing that is known of a step."""
        self.arrays["tokens"][:] = [token for s in self.plan.scheduled for token in s.request.tokens(s.begin, s.end)]
        return self

    @property
    def slots(self) -> dict[str, Array]:
        """The slots that it writes, by group."""
        return {name.removesuffix(SLOTS): array for name, array in self.arrays.items() if name.endswith(SLOTS)}


@dataclass(frozen=True)
class Forward:
    """What came of a plan: logits [rows, V] on wherever they were computed, and whose rows they are; each row's likeliest id, where it
    was worked out with them."""

    logits: Tensor
    wanted: tuple[Wanted, ...]
    likeliest: Tensor | None = None


class Runner:
    """Feeds a model. With plans, steps whose shapes were met before are replayed; without, each runs op by op."""

    def __init__(self, model: Model, cache: Cache, kv: KVCacheManager, plans: Plans | None = None) -> None:
        self.model, self.cache, self.kv, self.plans = model, cache, kv, plans or Plans()

    def prepare(self, plan: Plan) -> Prepared:
        """A plan in numbers, with room for its tokens: some may be known later."""
        wanted = wanted_rows(plan)
        return Prepared(plan, wanted, tuple(self.kv.copies(s.request for s in plan.scheduled)), self._arrays(plan, wanted))

    def run(self, step: Prepared) -> Forward:
        """Run the model once. It may raise and be run again."""
        for copy in step.copies:
            self.cache.copy(*copy)
        logits, likeliest = self.plans.run(step.arrays, self._forward)
        return Forward(logits, step.wanted, likeliest)

    def _forward(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Logits, and the likeliest ids where a sequence has one row at most: part of the step, they are replayed with it."""
        logits = self.model(self._batch(tensors), self.cache).logits
        return logits, argmax(logits) if tensors["rows"].shape[0] <= tensors["lengths"].shape[0] else None

    def _arrays(self, plan: Plan, wanted: tuple[Wanted, ...]) -> dict[str, Array]:
        """The step's numbers by name."""
        parts = plan.scheduled
        rows = [row for w in wanted for row in range(w.at, w.at + w.count)]
        numbers = {
            "tokens": [0] * plan.num_tokens,
            "positions": [i for s in parts for i in range(s.begin, s.end)],
            "starts": [0, *accumulate(s.num_tokens for s in parts)],
            "lengths": [s.end for s in parts],
            "prompts": [len(s.request.prompt_token_ids) for s in parts],
            "rows": rows or [0],  # a model gives logits of at least one token
        }
        arrays = {name: np.array(values, np.int32) for name, values in numbers.items()}
        for name, rule in self.kv.groups.items():
            pages = [self.kv.read(s.request, name, s.begin) for s in parts]
            if isinstance(rule, EncoderRule):
                pages = [page for page, s in zip(pages, parts, strict=True) for _ in range(s.num_tokens)]
                arrays |= _encoder(parts)
            arrays[f"{name} table"] = _table(pages)
            slots = [self.kv.slots(s.request, name, s.begin, s.num_tokens) for s in parts]
            arrays[name + SLOTS] = slots[0] if len(slots) == 1 else np.concatenate(slots)
        return arrays

    def _batch(self, t: Mapping[str, Tensor]) -> Batch:
        groups = {name: Group(t[f"{name} table"], t[name + SLOTS]) for name in self.kv.groups}
        encoder = Encoder(*(t[n] for n in ENCODER)) if ENCODER[0] in t else None
        return Batch(t["tokens"], t["positions"], t["starts"], t["lengths"], t["positions"], t["rows"], groups, t["prompts"], encoder)


def wanted_rows(plan: Plan) -> tuple[Wanted, ...]:
    """Of which tokens somebody wants logits: of a sequence's last one, to choose the next; of a prompt's, where it is to be scored."""
    wanted, first, start = list[Wanted](), 0, 0
    for s in plan.scheduled:
        begin = s.request.first_wanted_token(s.begin)
        if count := max(0, s.end - begin):
            samples = s.request.samples and s.end == s.request.num_expected_tokens
            wanted.append(Wanted(s, first, begin, start + begin - s.begin, count, samples))
        first, start = first + count, start + s.num_tokens
    return tuple(wanted)


def _encoder(parts: Sequence[Scheduled]) -> dict[str, Array]:
    """What an encoder reads in this step, of the sequences that begin, and how much of it each token of the batch sees."""
    read = [s.request.submission.encoder_token_ids for s in parts if not s.begin]
    seen = [len(s.request.submission.encoder_token_ids) for s in parts for _ in range(s.num_tokens)]
    numbers = ([i for ids in read for i in ids], [i for ids in read for i in range(len(ids))], [0, *accumulate(map(len, read))])
    values = (*numbers, range(len(seen) + 1), seen, [n - 1 for n in seen])
    return {name: np.array(value, np.int32) for name, value in zip(ENCODER, values, strict=True)}


def _table(tables: list[list[int]]) -> Array:
    """Page tables side by side, each filled up with the page of zeros: to a power of two, so that few shapes come up."""
    wide = 1 << (max(1, *(len(t) for t in tables)) - 1).bit_length()
    return np.array([t + [0] * (wide - len(t)) for t in tables])
