"""The routes between text and token ids."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, StrictInt
from starlette.responses import Response

from vtcore.api.body import Body
from vtcore.api.chat import ChatRequest, Message
from vtcore.api.constraints import refuse_unserved
from vtcore.api.errors import ApiError
from vtcore.api.sampling import LONGEST_TEXT
from vtcore.api.service import Service

router = APIRouter(tags=["tokens"])
FOR_TEMPLATES = ("messages", "chat_template_kwargs", "tools", "add_generation_prompt", "continue_final_message")


class TokenizeRequest(Body):
    """POST /tokenize: a text, or a conversation as the chat template writes it."""

    model_config = ConfigDict(extra="allow", str_max_length=LONGEST_TEXT)

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = Field(None, description="default: true for a text, false for a conversation")
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    return_token_strs: bool = False


class DetokenizeRequest(Body):
    """POST /detokenize."""

    model: str | None = None
    tokens: Annotated[list[StrictInt], Field(max_length=1 << 20)]


@router.post("/tokenize")
async def tokenize(body: TokenizeRequest, request: Request) -> Response:
    """{count, max_model_len, tokens, token_strs}."""
    service: Service = request.app.state.service
    service.known(body.model)
    refuse_unserved(body.model_extra)
    size = len(body.prompt or "") + sum(len(m.content or "") for m in body.messages or ())
    told = await service.aside(size, _tokenized, service, body, request.app.state.engine.info.get("max_model_len"))
    return Response(told, media_type="application/json")


@router.post("/detokenize")
async def detokenize(body: DetokenizeRequest, request: Request) -> dict[str, str]:
    """{prompt}: the text of token ids, special tokens too."""
    service: Service = request.app.state.service
    service.known(body.model)
    most = request.app.state.engine.info.get("vocab_size")
    if most is not None and (wrong := [i for i in body.tokens if not 0 <= i < most]):
        raise ApiError(400, f"tokens holds {str(wrong[0])[:80]}; a token id is an integer from 0 to {most - 1}", "tokens")
    return {"prompt": await service.aside(len(body.tokens), service.tokenizer.decode, body.tokens, False)}


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
    asked = body.model_dump(include=set(FOR_TEMPLATES), exclude_unset=True)
    request = ChatRequest.model_validate({**asked, "tool_choice": "none"})
    request.check()
    return service.tokenizer.encode(service.rendered(request)[0], bool(body.add_special_tokens))
