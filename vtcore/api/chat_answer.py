"""A chat completion as it is answered, whole and in frames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from vtcore.api.answer import Answer
from vtcore.api.chat import ChatRequest
from vtcore.api.gathered import Sequence
from vtcore.api.logprobs import prompt_logprobs
from vtcore.outputs import Delta

CHUNK = "chat.completion.chunk"


@dataclass
class ChatAnswer(Answer):
    """To one conversation."""

    request: ChatRequest
    prefix: str = ""  # what echo puts before the answer

    async def whole(self) -> dict[str, Any]:
        """The object chat.completion, when it is complete."""
        await self.finished()
        source, choices = self.sources[0], [self._choice(c) for c in self.gathered[0].sequences]
        told: dict[str, Any] = {**self.head("chat.completion"), "choices": choices, "usage": self.usage()}
        if self.request.prompt_logprobs is not None:
            told["prompt_logprobs"] = prompt_logprobs(source.prompt_logprobs)
        if self.request.return_token_ids:
            told["prompt_token_ids"] = source.prompt_token_ids
        return told

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """Objects chat.completion.chunk: the role of each choice first, then what is added, at last the usage if asked for."""
        for index in range(self.sequences):
            yield self.frame(CHUNK, [self._first(index)])
        if self.prefix:
            for index in range(self.sequences):
                yield self.frame(CHUNK, [{"index": index, "delta": {"content": self.prefix}, "finish_reason": None}])
        async for _, delta in self.deltas():
            if delta.text or delta.finish_reason is not None or delta.logprobs or self.request.return_token_ids:
                yield self.frame(CHUNK, [self._added(delta)])
        if self.request.usage_in_stream:
            yield self.last_frame(CHUNK)

    def _choice(self, output: Sequence) -> dict[str, Any]:
        asked = self.request.asked_logprobs
        told = {
            "index": output.index,
            "message": {"role": "assistant", "content": self.prefix + output.text},
            "logprobs": None if asked is None else self.named.chat(output.logprobs, asked),
            "finish_reason": output.finish_reason,
            "stop_reason": output.stop_reason,
        }
        return {**told, "token_ids": output.token_ids} if self.request.return_token_ids else told

    def _first(self, index: int) -> dict[str, Any]:
        told: dict[str, Any] = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        return {**told, "prompt_token_ids": self.sources[0].prompt_token_ids} if self.request.return_token_ids else told

    def _added(self, delta: Delta) -> dict[str, Any]:
        asked = self.request.asked_logprobs
        told: dict[str, Any] = {"index": delta.index, "delta": {"content": delta.text} if delta.text else {}}
        told["logprobs"] = None if asked is None else self.named.chat(delta.logprobs or [], asked)
        told["finish_reason"] = delta.finish_reason
        if delta.finish_reason is not None:
            told["stop_reason"] = delta.stop_reason
        return {**told, "token_ids": delta.token_ids} if self.request.return_token_ids else told
