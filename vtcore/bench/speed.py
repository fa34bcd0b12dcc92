"""Prefill and decode, timed over whole steps of an engine: from a text, or ids, to tokens that have been delivered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from vtcore.engine import Engine
from vtcore.errors import VtcoreError
from vtcore.llm import LLM
from vtcore.request import Submission
from vtcore.sampling_params import SamplingParams

WORDS = (  # common ones, most of them one token each in any vocabulary
    "a about after all an and any are as at back be because but by can come could day do even find first for from get give go good have he "
    "her here him his how I if in into is it its just know like look make man many me more my new no not now of on one only or other our "
    "out over people say see she so some take tell than that the their them then there these they thing think this those time to two up "
    "use very want water way we well what when which who will with work world would year you your"
)
Load = Callable[..., LLM]  # the model, by more keywords of LLM
Prompt = Callable[[], list[int]]  # gives the ids; the tokenizer's work is done in the call


@dataclass(frozen=True)
class Pace:
    """Tokens of all sequences together, and how long they took."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


class Prompts:
    """Prompts of an exact length, another one each time. Without a tokenizer they are random ids."""

    def __init__(self, engine: Engine, seed: int = 0) -> None:
        self.tokenizer, self.vocab_size = engine.intake.tokenizer, engine.intake.vocab_size
        self.rng = np.random.default_rng(seed)

    def draw(self, tokens: int) -> Prompt:
        """A prompt of so many tokens."""
        if self.tokenizer is None:
            ids = self.rng.integers(0, self.vocab_size, tokens).tolist()
            return lambda: list(ids)
        encode = self.tokenizer.encode
        text = self.tokenizer.decode(encode(" ".join(self.rng.choice(WORDS.split(), tokens)))[:tokens])
        return lambda: _cut(encode(text), tokens)


def prefill(engine: Engine, prompt: Prompt) -> Pace:
    """From a text to its first token: tokens of the prompt, whatever number of steps it takes."""
    start = time.perf_counter()
    ids = prompt()
    submission = engine.submit(ids, _greedy(1))
    _finish(engine, [submission], lambda: submission.finished)
    return Pace(len(ids), time.perf_counter() - start)


def decode(engine: Engine, prompts: Sequence[Prompt], steps: int) -> Pace:
    """So many steps in which every sequence gets a token, right after their prompts."""
    with decoding(engine, prompts, steps):
        return stepped(engine, steps)


@contextmanager
def decoding(engine: Engine, prompts: Sequence[Prompt], steps: int) -> Iterator[list[Submission]]:
    """Inside, every prompt is computed and every sequence decodes, for at least so many steps more."""
    params = _greedy(steps + 2 * len(prompts) + 1)
    submissions = [engine.submit(p(), params) for p in prompts]
    try:
        _until(engine, submissions, lambda: all(s.first_token is not None for s in submissions))
        yield submissions
        _undisturbed(submissions)
    finally:
        for s in submissions:
            engine.abort(s.request_id)


def stepped(engine: Engine, steps: int) -> Pace:
    """The next steps of whatever runs."""
    tokens, start = 0, time.perf_counter()
    for _ in range(steps):
        tokens += sum(len(d.token_ids) for d in engine.step())
    return Pace(tokens, time.perf_counter() - start)


def _greedy(tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)


def _finish(engine: Engine, submissions: Sequence[Submission], done: Callable[[], bool]) -> None:
    """Step until it is done; if a step raises, nothing stays behind."""
    try:
        _until(engine, submissions, done)
    finally:
        for s in submissions:
            engine.abort(s.request_id)


def _until(engine: Engine, submissions: Sequence[Submission], done: Callable[[], bool]) -> None:
    while not done():
        engine.step()
        for s in submissions:
            s.raise_fault()


def _undisturbed(submissions: Sequence[Submission]) -> None:
    for s in submissions:
        s.raise_fault()
    if any(r.num_preemptions for s in submissions for r in s.requests):
        raise VtcoreError(
            f"the cache can't hold {len(submissions)} sequences at once, so some were computed twice and the speed would mean nothing: "
            "free some memory"
        )


def _cut(ids: list[int], tokens: int) -> list[int]:
    """Exactly so many: what a text is cut from and what it is cut to may differ by a few."""
    return (ids + ids[-1:] * tokens)[:tokens]
