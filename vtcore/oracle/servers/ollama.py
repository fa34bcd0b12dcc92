"""Ollama's /api/generate in raw mode: text in, tokens out as text. It tells no ids; a prompt's length is what can be checked."""

from __future__ import annotations

from typing import Any

from vtcore.oracle.followed import NotComparedError
from vtcore.oracle.servers.client import Client
from vtcore.oracle.servers.dialect import MOST_LOGPROBS, Asked, Generated, Told, count_at, item, listed, mapping, number, rows, text_of


class Ollama:
    """From version 0.12.11 on, which tells log probabilities."""

    name, scores, takes_ids = "ollama", False, False

    def __init__(self, client: Client, model: str) -> None:
        self.client, self.model = client, model

    def version(self) -> str | None:
        """From /api/version."""
        said = self.client.maybe("/api/version")
        return str(said["version"]) if isinstance(said, dict) and "version" in said else None

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """There is no such path."""
        return None

    def generate(self, asked: Asked, count: int) -> Generated:
        """Greedy, without its chat template."""
        if asked.text is None:
            raise NotComparedError("Ollama takes prompts as text only, and this one was recorded as token ids")
        options = {"temperature": 0, "num_predict": count, "seed": 0, "repeat_penalty": 1.0, "num_ctx": len(asked.ids) + count + 8}
        body = {"model": self.model, "prompt": asked.text, "raw": True, "stream": False, "options": options}
        answer = self.client.post("/api/generate", body | {"logprobs": True, "top_logprobs": min(asked.count, MOST_LOGPROBS)})
        if not isinstance(answer, dict) or answer.get("logprobs") is None:
            raise NotComparedError("it gave no logprobs, though asked: Ollama has them from version 0.12.11 on")
        told = tuple(_told(e) for e in rows(answer, "logprobs"))
        return Generated(told, str(item(answer, "done_reason")), count_at(answer, "prompt_eval_count"))

    def score(self, asked: Asked, count: int) -> Generated:
        """It has no way to."""
        raise NotComparedError("Ollama gives no log probabilities of a prompt's tokens")


def _told(entry: Any) -> Told:
    tops = listed(mapping(entry, "logprobs").get("top_logprobs"), "top_logprobs")
    others = tuple(Told(None, text_of(item(o, "token")), number(item(o, "logprob"))) for o in tops)
    return Told(None, text_of(item(entry, "token")), number(item(entry, "logprob")), others)
