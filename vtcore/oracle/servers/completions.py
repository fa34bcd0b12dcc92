"""POST /v1/completions: the answer's form that OpenAI gave it, which vLLM and llama-cpp-python share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtcore.oracle.followed import NotComparedError
from vtcore.oracle.servers.client import Client, RefusedError
from vtcore.oracle.servers.dialect import (
    Asked,
    Generated,
    Told,
    best,
    check_length,
    count_at,
    ids_at,
    integer,
    item,
    listed,
    mapping,
    number,
    rows,
    text_of,
)

PREFIX = "token_id:"  # vLLM's spelling of ids in the place of texts


class Completions:
    """A server of which no more is known than that it has this path. It is tried with token ids first, then with text."""

    name, scores, takes_ids = "openai", True, True
    most = 5  # alternatives: OpenAI's own limit

    def __init__(self, client: Client, model: str) -> None:
        self.client, self.model = client, model

    def version(self) -> str | None:
        """It says none."""
        return None

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """There is no such path."""
        return None

    def generate(self, asked: Asked, count: int) -> Generated:
        """Greedy."""
        answer = self.complete(asked, max_tokens=count)
        return Generated(self.tokens(answer), finish_of(answer), count_at(answer, "usage", "prompt_tokens"))

    def score(self, asked: Asked, count: int) -> Generated:
        """The prompt's echo, of as many tokens as were recorded."""
        answer = self.complete(asked, max_tokens=1, echo=True)
        told = self.tokens(answer)
        if len(told) not in (len(asked.ids), len(asked.ids) + 1) or told[0].logprob is not None:
            raise NotComparedError(f"echo gave {len(told)} tokens for a prompt of {len(asked.ids)}")
        return Generated(
            tuple(map(best, told[len(asked.ids) - count : len(asked.ids)])), "length", count_at(answer, "usage", "prompt_tokens")
        )

    def complete(self, asked: Asked, **more: Any) -> Any:
        """One request. A server that refuses ids gets the text, and from then on nothing else."""
        body = {"model": self.model, "temperature": 0, "seed": 0, "logprobs": min(asked.count, self.most), **more}
        if self.takes_ids:
            try:
                return self.client.post("/v1/completions", body | {"prompt": list(asked.ids)})
            except RefusedError as refused:
                if asked.text is None or refused.status not in (400, 422, 500):
                    raise
        if asked.text is None:
            raise NotComparedError("it takes prompts as text only, and this one was recorded as token ids")
        answer = self.client.post("/v1/completions", body | {"prompt": asked.text})
        self.takes_ids = False  # not before: a server that fails now and then refuses neither
        return answer

    def tokens(self, answer: Any) -> tuple[Told, ...]:
        """The first choice's tokens; without log probabilities none."""
        logprobs = _choice(answer).get("logprobs")
        if logprobs is None:
            raise NotComparedError("it gave no logprobs, though asked: nothing says which tokens it chose")
        texts, values = rows(logprobs, "tokens"), rows(logprobs, "token_logprobs")
        tops = listed(logprobs.get("top_logprobs"), "top_logprobs") or [None] * len(texts)
        check_length(values, len(texts), "token_logprobs")
        check_length(tops, len(texts), "top_logprobs")
        return tuple(_told(text, number(v), top) for text, v, top in zip(texts, values, tops, strict=True))


class VLLM(Completions):
    """vLLM: prompts as ids, `prompt_logprobs` by id, tokens spelled as ids on request."""

    name, most = "vllm", 20

    def version(self) -> str | None:
        """From /version."""
        said = self.client.maybe("/version")
        return str(said["version"]) if isinstance(said, dict) and "version" in said else None

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """From /tokenize."""
        said = self.client.maybe("/tokenize", {"model": self.model, "prompt": text, "add_special_tokens": special})
        return None if said is None else ids_at(said, "tokens")

    def generate(self, asked: Asked, count: int) -> Generated:
        """Greedy; ids by two of its extensions."""
        answer = self.complete(asked, max_tokens=count, return_tokens_as_token_ids=True)
        return Generated(self.tokens(answer), finish_of(answer), count_at(answer, "usage", "prompt_tokens"))

    def score(self, asked: Asked, count: int) -> Generated:
        """From `prompt_logprobs`: of each token of the prompt but the first."""
        answer = self.complete(asked, max_tokens=1, prompt_logprobs=min(asked.count, self.most))
        told = rows(answer, "choices", 0, "prompt_logprobs")
        check_length(told, len(asked.ids), "prompt_logprobs")
        return Generated(tuple(map(_ranked, told[-count:])), "length", count_at(answer, "usage", "prompt_tokens"))


class Vtcore(VLLM):
    """`vtcore serve`, which speaks as vLLM does."""

    name = "vtcore"


def finish_of(answer: Any) -> str:
    """Why the first choice ended."""
    return str(_choice(answer).get("finish_reason"))


def _choice(answer: Any) -> Mapping[str, Any]:
    return mapping(item(answer, "choices", 0), "choices.0")


def _told(text: Any, logprob: float | None, top: Any) -> Told:
    others = () if top is None else tuple(Told(_id(t), t, number(v)) for t, v in mapping(top, "top_logprobs").items())
    return Told(_id(text), text_of(text), logprob, others)


def _id(text: Any) -> int | None:
    digits = text[len(PREFIX) :] if isinstance(text, str) and text.startswith(PREFIX) else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 12 else None


def _ranked(entry: Any) -> Told:
    """{id: {logprob, rank, decoded_token}}: the likeliest, which may be another one than the prompt's own."""
    others = []
    for key, value in mapping(entry, "prompt_logprobs").items():
        if not key.isascii() or not key.isdigit():
            raise NotComparedError(f"its prompt_logprobs have {key!r:.40} in the place of a token id")
        others.append(Told(int(key[:12]), text_of(mapping(value, "prompt_logprobs").get("decoded_token")), number(value.get("logprob"))))
    best = max(others, key=lambda t: -1e9 if t.logprob is None else t.logprob, default=None)
    if best is None or best.logprob is None:
        raise NotComparedError("its prompt_logprobs have no entries for a token")
    return Told(integer(best.token, "prompt_logprobs"), best.text, best.logprob, tuple(others))
