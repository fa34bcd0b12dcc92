"""Recording: every prompt of a file, answered greedily by one engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from vtcore.assembly import survey_of, vocab_size
from vtcore.catalogue import resolve
from vtcore.errors import ArgumentError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.oracle.model_facts import model_facts, pieces_of
from vtcore.oracle.prompts import Encoded, Prompt
from vtcore.oracle.recording import LEAST_ALTERNATIVES, Answer, ModelFacts, Recording
from vtcore.text.load import find_tokenizer
from vtcore.text.tokenizer import Tokenizer

MOST_ALTERNATIVES = 1024


class Answering(Protocol):
    """An engine that can answer by itself."""

    def describe(self) -> Mapping[str, str]: ...
    def check(self, prompt: Encoded, max_tokens: int) -> None: ...
    def answer(self, prompt: Encoded, max_tokens: int, count: int) -> Answer: ...


def facts_of(model: str) -> tuple[ModelFacts, Tokenizer | None]:
    """What a recording says of a model, from its files; no weight is computed with."""
    checkpoint = open_checkpoint(resolve(model))
    tokenizer, network = find_tokenizer(checkpoint), load_model(checkpoint)
    survey_of(network)
    return model_facts(model, checkpoint, type(network).__name__, vocab_size(network), tokenizer), tokenizer


def record(
    model: tuple[ModelFacts, Tokenizer | None],
    prompts: Sequence[Prompt],
    engine: Answering,
    *,
    max_tokens: int = 64,
    alternatives: int = 8,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Recording:
    """Answers to all prompts. All are tokenised and checked before the first is answered. `model` comes from `facts_of`.

    Raises ArgumentError for numbers out of range and prompts that can't be tokenised or answered."""
    facts, tokenizer = model
    if not LEAST_ALTERNATIVES <= alternatives <= MOST_ALTERNATIVES:
        raise ArgumentError(f"alternatives is {alternatives}; it must be from {LEAST_ALTERNATIVES} to {MOST_ALTERNATIVES}")
    asked = [p.encode(tokenizer) for p in prompts]
    for one in asked:
        _check(engine, one, max_tokens)
    answers = []
    for i, prompt in enumerate(asked):
        answers.append(engine.answer(prompt, max_tokens, alternatives))
        progress(i + 1, len(asked))
    ids = {*facts.end_ids, *(int(i) for a in answers for i in a.top_ids.reshape(-1)), *(i for a in answers for i in a.prompt_token_ids)}
    told = {**engine.describe(), "max_tokens": str(max_tokens)}
    return Recording(facts, told, tuple(answers), pieces_of(tokenizer, ids))


def _check(engine: Answering, prompt: Encoded, max_tokens: int) -> None:
    """Its error, with the prompt's name."""
    try:
        engine.check(prompt, max_tokens)
    except ArgumentError as wrong:
        raise ArgumentError(f"prompt {prompt.name}: {wrong}") from wrong
