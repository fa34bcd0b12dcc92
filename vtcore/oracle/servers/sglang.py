"""SGLang's own /generate: ids in, ids out, and log probabilities of both as [logprob, id, text]."""

from __future__ import annotations

from typing import Any

from vtcore.oracle.followed import NotComparedError
from vtcore.oracle.servers.client import Client
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
    number,
    rows,
    text_of,
)


class SGLang:
    """The native path: what it has under OpenAI's names tells tokens as text only."""

    name, scores, takes_ids = "sglang", True, True

    def __init__(self, client: Client, model: str) -> None:
        self.client, self.model = client, model

    def version(self) -> str | None:
        """From /get_server_info."""
        said = self.client.maybe("/get_server_info")
        return str(said["version"]) if isinstance(said, dict) and "version" in said else None

    def tokenize(self, text: str, special: bool) -> list[int] | None:
        """From /tokenize, which newer ones have."""
        said = self.client.maybe("/tokenize", {"model": self.model, "prompt": text, "add_special_tokens": special})
        return ids_at(said, "tokens") if isinstance(said, dict) and "tokens" in said else None

    def generate(self, asked: Asked, count: int) -> Generated:
        """Greedy."""
        meta = self._ask(asked, count, len(asked.ids))
        finish = item(meta, "finish_reason")
        reason = finish.get("type") if isinstance(finish, dict) else finish
        return Generated(_told(meta, "output"), str(reason), count_at(meta, "prompt_tokens"))

    def score(self, asked: Asked, count: int) -> Generated:
        """From the log probabilities of the input."""
        meta = self._ask(asked, 1, 0)
        told = _told(meta, "input")
        check_length(told, len(asked.ids), "input_token_logprobs")
        return Generated(tuple(map(best, told[-count:])), "length", count_at(meta, "prompt_tokens"))

    def _ask(self, asked: Asked, count: int, start: int) -> Any:
        body = {
            "input_ids": list(asked.ids),
            "sampling_params": {"temperature": 0, "max_new_tokens": count},
            "return_logprob": True,
            "logprob_start_len": start,
            "top_logprobs_num": asked.count,
        }
        return item(self.client.post("/generate", body), "meta_info")


def _told(meta: Any, side: str) -> tuple[Told, ...]:
    own, tops = rows(meta, f"{side}_token_logprobs"), listed(item(meta, f"{side}_top_logprobs"), f"{side}_top_logprobs")
    check_length(tops, len(own), f"{side}_top_logprobs")
    return tuple(Told(*_entry(e), tuple(Told(*_entry(o)) for o in listed(t, "alternatives"))) for e, t in zip(own, tops, strict=True))


def _entry(entry: Any) -> tuple[int, str | None, float | None]:
    if not isinstance(entry, list) or len(entry) < 2:
        raise NotComparedError(f"its answer has {entry!r:.60} as a log probability; [logprob, id, text] is needed")
    return integer(entry[1], "a token id"), text_of(entry[2]) if len(entry) > 2 else None, number(entry[0])
