"""Server-sent events as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from vtcore.api.chat_answer import ChatAnswer
from vtcore.api.completion_answer import CompletionAnswer
from vtcore.api.errors import api_error
from vtcore.api.responses_answer import ResponsesAnswer

_json = msgspec.json.Encoder()
DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any]) -> bytes:
    """One frame."""
    return b"data: " + _json.encode(data) + b"\n\n"


async def events(answer: ChatAnswer | CompletionAnswer) -> AsyncIterator[bytes]:
    """An answer's frames, and [DONE] at the end. What fails on the way is a frame too, since the status has been sent already.

    A reader that goes away ends the request."""
    try:
        try:
            async for frame in answer.frames():
                yield event(frame)
        except Exception as error:
            yield event(api_error(error).body())
        yield DONE
    finally:
        answer.abort()


async def named_events(answer: ResponsesAnswer) -> AsyncIterator[bytes]:
    """The events of a response, each under its own name; there is no [DONE]."""
    try:
        async for told in answer.events():
            yield f"event: {told['type']}\n".encode() + event(told)
    finally:
        answer.abort()
