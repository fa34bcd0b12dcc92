"""The routes that generate: chat completions and text completions."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from vtcore.api.chat import ChatRequest
from vtcore.api.chat_answer import ChatAnswer
from vtcore.api.completion import CompletionRequest
from vtcore.api.completion_answer import CompletionAnswer
from vtcore.api.service import Service
from vtcore.server.sse import events

router = APIRouter(tags=["OpenAI"])
GONE = 499  # nginx's status for a client that went away; nobody reads it


@router.post("/v1/chat/completions")
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """Answer a conversation."""
    service: Service = request.app.state.service
    return await _respond(request, await service.chat(body))


@router.post("/v1/completions")
async def completions(body: CompletionRequest, request: Request) -> Response:
    """Continue a text."""
    service: Service = request.app.state.service
    return await _respond(request, await service.complete(body))


async def _respond(request: Request, answer: ChatAnswer | CompletionAnswer) -> Response:
    if answer.request.stream:
        return StreamingResponse(events(answer), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
    told = await _unless_gone(request, answer)
    return Response(status_code=GONE) if told is None else JSONResponse(told)


async def _unless_gone(request: Request, answer: ChatAnswer | CompletionAnswer) -> dict[str, Any] | None:
    """The whole answer; None where the client left before it was complete, and nothing is computed for it any more."""
    whole, gone = asyncio.ensure_future(answer.whole()), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait([whole, gone], return_when=asyncio.FIRST_COMPLETED)
        return whole.result() if whole.done() else None
    finally:
        answer.abort()
        for task in (whole, gone):
            task.cancel()
        await asyncio.gather(whole, gone, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
