"""A response as it is answered, whole and as events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from vtcore.api.chat_answer import ChatAnswer
from vtcore.api.errors import api_error
from vtcore.api.responses import ResponsesRequest
from vtcore.outputs import Delta

Event = dict[str, Any]


@dataclass
class ResponsesAnswer:
    """To one input: a chat completion in other clothes."""

    request: ResponsesRequest
    chat: ChatAnswer
    response_id: str = field(default_factory=lambda: f"resp_{uuid4().hex}")
    message_id: str = field(default_factory=lambda: f"msg_{uuid4().hex}")

    async def whole(self) -> dict[str, Any]:
        """The object response, when it is complete."""
        await self.chat.finished()
        return self._response(self._status)

    async def events(self) -> AsyncIterator[Event]:
        """OpenAI's events in their order, numbered."""
        number = 0
        async for event in self._events():
            yield {**event, "sequence_number": number}
            number += 1

    def abort(self) -> None:
        """End what is still running."""
        self.chat.abort()

    async def _events(self) -> AsyncIterator[Event]:
        place = {"item_id": self.message_id, "output_index": 0, "content_index": 0}
        for kind in ("created", "in_progress"):
            yield {"type": f"response.{kind}", "response": self._response("in_progress", output=[])}
        yield {"type": "response.output_item.added", "output_index": 0, "item": self._item("in_progress", content=[])}
        yield {
            "type": "response.content_part.added",
            **place,
            "part": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
        }
        try:
            async for _, delta in self.chat.deltas():
                if delta.text:
                    yield {"type": "response.output_text.delta", **place, "delta": delta.text, "logprobs": self._logprobs(delta)}
        except Exception as error:  # the status has been sent already
            told = api_error(error)
            fault = {"code": "server_error", "message": told.message}
            yield {"type": "response.failed", "response": {**self._response("failed"), "error": fault}}
            return
        part = self._part()
        yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": part["logprobs"]}
        yield {"type": "response.content_part.done", **place, "part": part}
        yield {"type": "response.output_item.done", "output_index": 0, "item": self._item(self._status)}
        yield {"type": f"response.{self._status}", "response": self._response(self._status)}

    @property
    def _status(self) -> str:
        return "incomplete" if self.chat.gathered[0].sequences[0].finish_reason == "length" else "completed"

    def _logprobs(self, delta: Delta) -> list[dict[str, Any]]:
        asked = self.chat.request.asked_logprobs
        return [] if asked is None else list(self.chat.named.chat(delta.logprobs or [], asked)["content"])

    def _part(self) -> dict[str, Any]:
        sequence, asked = self.chat.gathered[0].sequences[0], self.chat.request.asked_logprobs
        scores = [] if asked is None else self.chat.named.chat(sequence.logprobs, asked)["content"]
        return {"type": "output_text", "text": sequence.text, "annotations": [], "logprobs": scores}

    def _item(self, status: str, content: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        parts = [self._part()] if content is None else content
        return {"id": self.message_id, "type": "message", "role": "assistant", "status": status, "content": parts}

    def _response(self, status: str, output: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        asked, told = self.request, self.chat.usage()
        usage = {
            "input_tokens": told["prompt_tokens"],
            "input_tokens_details": told.get("prompt_tokens_details", {"cached_tokens": 0}),
            "output_tokens": told["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": told["total_tokens"],
        }
        return {
            "id": self.response_id,
            "object": "response",
            "created_at": self.chat.created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": asked.instructions,
            "max_output_tokens": asked.max_output_tokens,
            "metadata": asked.metadata or {},
            "model": self.chat.model,
            "output": [self._item(status)] if output is None else output,
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": asked.temperature,
            "text": {"format": {"type": "text"}},
            "tool_choice": asked.tool_choice or "auto",
            "tools": asked.tools or [],
            "top_p": asked.top_p,
            "truncation": "disabled",
            "usage": None if status == "in_progress" else usage,
        }
