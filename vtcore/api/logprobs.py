"""Log probabilities in the forms that clients read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from vtcore.outputs import Logprob, Logprobs

LEAST = -9999.0  # stands for minus infinity, which JSON has no word for


class Vocabulary(Protocol):
    """What is needed of a tokenizer."""

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of a token."""
        ...


class Named:
    """Tokens by the names that a request wants: their texts, or token_id:N."""

    def __init__(self, vocabulary: Vocabulary, as_ids: bool) -> None:
        self.vocabulary, self.as_ids = vocabulary, as_ids

    def name(self, token_id: int, said: Logprob) -> str:
        """How a token is called."""
        return f"token_id:{token_id}" if self.as_ids else said.decoded_token or ""

    def chat(self, rows: Sequence[Logprobs], most: int) -> dict[str, Any]:
        """{"content": one entry a token}, each with the `most` likeliest."""
        return {"content": [self._entry(row, most) for row in rows], "refusal": None}

    def text(self, rows: Sequence[Logprobs | None], ids: Sequence[int], most: int, offset: int = 0) -> dict[str, Any]:
        """Text completions' four lists, one entry a token; None: the first token of a prompt, which follows nothing.

        Offsets are in characters, from that of the first token on."""
        tokens = [self.name(i, Logprob(0.0, None, self._alone(i)) if row is None else row[i]) for i, row in zip(ids, rows, strict=True)]
        offsets = [offset + sum(map(len, tokens[:k])) for k in range(len(tokens))]
        return {
            "text_offset": offsets,
            "token_logprobs": [None if row is None else number(row[i].logprob) for i, row in zip(ids, rows, strict=True)],
            "tokens": tokens,
            "top_logprobs": [None if row is None else self._top(row, i, most) for i, row in zip(ids, rows, strict=True)],
        }

    def _alone(self, token_id: int) -> str:
        return self.vocabulary.token_bytes(token_id).decode("utf-8", "replace")

    def _top(self, row: Logprobs, chosen: int, most: int) -> dict[str, float]:
        """The likeliest, and the chosen one whether it is among them or not."""
        kept = dict(likeliest(row, most)) | {chosen: row[chosen]}
        return {self.name(i, said): number(said.logprob) for i, said in kept.items()}

    def _entry(self, row: Logprobs, most: int) -> dict[str, Any]:
        chosen, said = next(iter(row.items()))
        return {**self._one(chosen, said), "top_logprobs": [self._one(i, s) for i, s in likeliest(row, most)]}

    def _one(self, token_id: int, said: Logprob) -> dict[str, Any]:
        return {
            "token": self.name(token_id, said),
            "logprob": number(said.logprob),
            "bytes": list(self.vocabulary.token_bytes(token_id)),
        }


def likeliest(row: Logprobs, most: int) -> list[tuple[int, Logprob]]:
    """The `most` likeliest tokens of a row, in falling order."""
    return sorted(row.items(), key=lambda item: item[1].rank or math.inf)[:most]


def number(logprob: float) -> float:
    """A log probability that JSON can hold."""
    return logprob if math.isfinite(logprob) else LEAST


def prompt_logprobs(rows: Sequence[Logprobs | None]) -> list[dict[str, Any] | None]:
    """vLLM's list: an entry a prompt token, by token id; the first is null."""
    return [None if row is None else {str(i): _told(said) for i, said in row.items()} for row in rows]


def _told(said: Logprob) -> dict[str, Any]:
    return {"logprob": number(said.logprob), "rank": said.rank, "decoded_token": said.decoded_token}
