"""llama.cpp: its own server (llama-server), and the one of llama-cpp-python, which has other paths and takes text only."""

from __future__ import annotations

from typing import Any

from vtcore.oracle.followed import NotComparedError
from vtcore.oracle.servers.client import Client
from vtcore.oracle.servers.completions import Completions
from vtcore.oracle.servers.dialect import Asked, Generated, Told, count_at, ids_at, integer, item, number, rows, text_of

PLAIN = {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}  # its defaults may change the likeliest token


class LlamaServer:
    """POST /completion: ids in; `completion_probabilities` by id, taken from the logits before any sampler."""

    name, scores, takes_ids = "llama.cpp", False, True

    def __init__(self, client: Client, model: str) -> None:
        self.client, self.model = client, model

    def version(self) -> str | None:
        """From /props."""
        said = self.client.maybe("/props")
        return str(said["build_info"]) if isinstance(said, dict) and "build_info" in said else None

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """From /tokenize."""
        said = self.client.maybe("/tokenize", {"content": text, "add_special": special, "parse_special": True})
        return None if said is None else ids_at(said, "tokens")

    def generate(self, asked: Asked, count: int) -> Generated:
        """Greedy, without its cache of prompts, so that each request computes all of its own."""
        body = {"prompt": list(asked.ids), "n_predict": count, "temperature": 0, "n_probs": asked.count, "return_tokens": True}
        answer = self.client.post("/completion", body | PLAIN | {"cache_prompt": False, "seed": 0})
        if item(answer, "truncated") is not False:
            raise NotComparedError("it truncated the prompt: give it a longer context (-c)")
        told = tuple(map(_told, rows(answer, "completion_probabilities")))
        finish = {"limit": "length", "eos": "stop"}.get(str(item(answer, "stop_type")), str(item(answer, "stop_type")))
        return Generated(told, finish, count_at(answer, "tokens_evaluated"))

    def score(self, asked: Asked, count: int) -> Generated:
        """It has no way to."""
        raise NotComparedError("llama.cpp's server gives no log probabilities of a prompt's tokens")


class LlamaCppPython(Completions):
    """llama-cpp-python's server, started with logits_all. Its echo shifts log probabilities and leaves tokens out, so it isn't used."""

    name, scores, takes_ids, most = "llama-cpp-python", False, False, 20

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """From /extras/tokenize, with the special tokens that it puts before every prompt."""
        return ids_at(self.client.post("/extras/tokenize", {"input": text}), "tokens")

    def complete(self, asked: Asked, **more: Any) -> Any:
        """As text."""
        return super().complete(asked, **PLAIN, **more)


def _told(entry: Any) -> Told:
    others = tuple(Told(*_named(o)) for o in rows(entry, "top_logprobs"))
    return Told(*_named(entry), others)


def _named(entry: Any) -> tuple[int, str | None, float | None]:
    return integer(item(entry, "id"), "id"), text_of(entry.get("token")), number(item(entry, "logprob"))
