"""The routes between text and token ids."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from vtcore.api.chat import ChatRequest, Message
from vtcore.api.errors import ApiError
from vtcore.api.service import Service

router = APIRouter(tags=["tokens"])


class TokenizeRequest(BaseModel):
    """POST /tokenize: a text, or a conversation as the chat template writes it."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = Field(None, description="default: true for a text, false for a conversation")
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    return_token_strs: bool = False


class DetokenizeRequest(BaseModel):
    """POST /detokenize."""

    model: str | None = None
    tokens: Annotated[list[int], Field(max_length=1 << 20)]


@router.post("/tokenize")
async def tokenize(body: TokenizeRequest, request: Request) -> Response:
    """{count, max_model_len, tokens, token_strs}."""
    service: Service = request.app.state.service
    service.known(body.model)
    told = await asyncio.to_thread(_tokenized, service, body, request.app.state.engine.info.get("max_model_len"))
    return Response(told, media_type="application/json")


@router.post("/detokenize")
async def detokenize(body: DetokenizeRequest, request: Request) -> dict[str, str]:
    """{prompt}: the text of token ids, special tokens too."""
    service: Service = request.app.state.service
    service.known(body.model)
    return {"prompt": await asyncio.to_thread(service.tokenizer.decode, body.tokens, False)}


def _tokenized(service: Service, body: TokenizeRequest, most: int | None) -> bytes:
    """The whole answer, beside the routes: it may be millions of ids."""
    ids, name = _ids(service, body), cache(lambda i: service.tokenizer.decode([i], skip_special_tokens=False))
    names = [name(i) for i in ids] if body.return_token_strs else None
    return msgspec.json.encode({"count": len(ids), "max_model_len": most, "tokens": ids, "token_strs": names})


def _ids(service: Service, body: TokenizeRequest) -> list[int]:
    if (body.prompt is None) == (body.messages is None):
        raise ApiError(400, "give either prompt or messages", "prompt")
    if body.prompt is not None:
        return service.tokenizer.encode(body.prompt, body.add_special_tokens is not False)
    asked = {n: getattr(body, n) for n in ("messages", "chat_template_kwargs", "tools", "continue_final_message")}
    generation = body.add_generation_prompt and not body.continue_final_message
    request = ChatRequest(**asked, add_generation_prompt=generation, tool_choice="none")
    return service.tokenizer.encode(service.rendered(request)[0], bool(body.add_special_tokens))
