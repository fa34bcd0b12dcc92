"""The routes that generate: chat completions, text completions and responses."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from vtcore.api.chat import ChatRequest
from vtcore.api.chat_answer import ChatAnswer
from vtcore.api.completion import CompletionRequest
from vtcore.api.completion_answer import CompletionAnswer
from vtcore.api.responses import ResponsesRequest
from vtcore.api.responses_answer import ResponsesAnswer
from vtcore.api.service import Service
from vtcore.server.sse import events, named_events

router = APIRouter(tags=["OpenAI"])
Answered = ChatAnswer | CompletionAnswer | ResponsesAnswer
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


@router.post("/v1/responses")
async def responses(body: ResponsesRequest, request: Request) -> Response:
    """Answer an input. Nothing is stored."""
    service: Service = request.app.state.service
    return await _respond(request, await service.respond(body))


async def _respond(request: Request, answer: Answered) -> Response:
    request.state.answer = answer.chat if isinstance(answer, ResponsesAnswer) else answer  # for the log
    if answer.request.stream:
        told_as = named_events(answer) if isinstance(answer, ResponsesAnswer) else events(answer)
        return StreamingResponse(told_as, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
    told = await _unless_gone(request, answer)
    return Response(status_code=GONE) if told is None else JSONResponse(told)


async def _unless_gone(request: Request, answer: Answered) -> dict[str, Any] | None:
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
