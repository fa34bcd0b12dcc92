"""A recording: prompts, the tokens that an engine answered, and how sure it was of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LEAST_ALTERNATIVES = 2  # of a token: itself, and the next best, from which the margin follows


@dataclass(frozen=True, eq=False)
class Answer:
    """One prompt and its greedy answer; n tokens, each with its k likeliest alternatives, the token itself first."""

    name: str
    text: str | None  # the prompt as the tokenizer saw it, a chat already rendered; None: it was given as ids
    special: bool  # whether the tokenizer put its own special tokens around the text
    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    top_ids: Array  # int32 [n, k]
    top_logprobs: Array  # float32 [n, k], natural logarithms under the model's own logits
    finish_reason: str  # "stop": the last token ends the answer; "length"
    hidden: Array | None = None  # float32 [layers, T, width]: every layer's output at T = len(prompt) + n - 1 positions

    @property
    def margins(self) -> Array:
        """float32 [n]: how far each token stands above the second best, in nats. A difference of logits is one of logprobs."""
        return np.asarray(self.top_logprobs[:, 0] - self.top_logprobs[:, 1])

    @property
    def forced(self) -> list[int]:
        """The prompt and every token but the last: after these, position by position, stands what is compared."""
        return [*self.prompt_token_ids, *self.token_ids[:-1]]

    def logprob(self, position: int, token: int) -> float | None:
        """What was recorded of a token at a position of the answer; None: it is not among the alternatives."""
        found = np.flatnonzero(self.top_ids[position] == token)
        return float(self.top_logprobs[position, found[0]]) if found.size else None


@dataclass(frozen=True)
class ModelFacts:
    """Which model answered. files: SHA-256 by name. tokenizer: a fingerprint of what it does, the same for every file format; None: the
    model has none. end_ids: the tokens that end an answer."""

    name: str
    architecture: str
    vocab_size: int
    files: Mapping[str, str]
    tokenizer: str | None
    end_ids: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Recording:
    """Answers of one engine. engine: its name, versions and numerics, in words. pieces: the bytes of every token that comes up."""

    model: ModelFacts
    engine: Mapping[str, str]
    answers: tuple[Answer, ...]
    pieces: Mapping[int, bytes] = field(default_factory=dict)

    def spelled(self, token: int | None) -> str:
        """A token's text for people: as Python would quote it, or its number."""
        if token is None or token not in self.pieces:
            return "?" if token is None else f"#{token}"
        return repr(self.pieces[token].decode("utf-8", "backslashreplace"))
