"""From a body to an answer: the model's name, its defaults and its chat template, and the engine behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from vtcore.api.chat import ChatRequest
from vtcore.api.chat_answer import ChatAnswer
from vtcore.api.completion import CompletionRequest
from vtcore.api.completion_answer import CompletionAnswer
from vtcore.api.errors import ApiError
from vtcore.api.logprobs import Named
from vtcore.api.responses import ResponsesRequest
from vtcore.api.responses_answer import ResponsesAnswer
from vtcore.api.sampling import Sampling
from vtcore.api.source import Client, Source
from vtcore.errors import TemplateError
from vtcore.formats.checkpoint import Checkpoint
from vtcore.prompts import render
from vtcore.sampling_params import SamplingParams
from vtcore.text.tokenizer import Tokenizer

LONG = 1 << 16  # characters, or ids: about what a tenth of a second is enough for
MOST_SCORES = 1 << 22  # of prompts' tokens in one request; the server holds all of them until the answer is whole
T = TypeVar("T")


class Service:
    """One served model. `names` are those that clients may call it by, the first of them the one that answers bear.

    Every method raises ApiError, ArgumentError, TemplateError or pydantic's ValidationError for what is wrong with a request, before
    anything of it is queued."""

    def __init__(self, client: Client, checkpoint: Checkpoint, tokenizer: Tokenizer, names: Sequence[str]) -> None:
        self.client, self.tokenizer, self.names = client, tokenizer, tuple(names)
        said = checkpoint.generation_config
        self._long = asyncio.Semaphore(1)
        self.defaults: Mapping[str, Any] = {} if said.get("do_sample") is False else said

    async def chat(self, request: ChatRequest) -> ChatAnswer:
        """POST /v1/chat/completions."""
        request.check()
        self.known(request.model)
        params = request.sampling_params(self.defaults, self._most(request.most_tokens), request.asked_logprobs)
        text, prefix = await asyncio.to_thread(self.rendered, request)
        prompt = await self.aside(len(text), self.tokenizer.encode, text, request.add_special_tokens)
        name, shortened = f"chatcmpl-{uuid4().hex}", request.shortened(prompt, self._longest(params))
        _check_scores([shortened], params)
        source = await self.client.submit(shortened, params, request_id=name, **request.options())
        return ChatAnswer(request, name, self.names[0], [source], self._named(request), prefix=prefix)

    async def complete(self, request: CompletionRequest) -> CompletionAnswer:
        """POST /v1/completions."""
        request.check()
        self.known(request.model)
        params = request.sampling_params(self.defaults, request.max_tokens, request.logprobs)
        prompts, texts = await self.aside(sum(map(len, request.prompts())), self._read, request, params)
        _check_scores(prompts, params)
        name = f"cmpl-{uuid4().hex}"
        sources = await self._submitted(name, prompts, params, request.options())
        return CompletionAnswer(request, name, self.names[0], sources, self._named(request), texts=texts)

    def _read(self, request: CompletionRequest, params: SamplingParams) -> tuple[list[list[int]], list[str]]:
        """The prompts as ids, and as texts where they are repeated. Other requests go on meanwhile: a prompt can be long."""
        encode, decode = self.tokenizer.encode, self.tokenizer.decode
        whole = [encode(p, request.add_special_tokens) if isinstance(p, str) else p for p in request.prompts()]
        prompts = [request.shortened(ids, self._longest(params)) for ids in whole]
        if not request.echo:
            return prompts, []
        cut = [len(ids) < len(was) for ids, was in zip(prompts, whole, strict=True)]
        given = zip(request.prompts(), prompts, cut, strict=True)
        return prompts, [text if isinstance(text, str) and not shorter else decode(ids) for text, ids, shorter in given]

    async def aside(self, size: int, work: Callable[..., T], *given: Any) -> T:
        """Do what takes time beside the routes, which go on. Long texts wait for each other: short ones shall not wait for many of them."""
        if size < LONG:
            return await asyncio.to_thread(work, *given)
        async with self._long:
            return await asyncio.to_thread(work, *given)

    async def respond(self, request: ResponsesRequest) -> ResponsesAnswer:
        """POST /v1/responses."""
        request.check()
        return ResponsesAnswer(request, await self.chat(request.as_chat()))

    async def _submitted(self, name: str, prompts: list[list[int]], params: SamplingParams, options: Mapping[str, Any]) -> list[Source]:
        """All of them or none."""
        sources: list[Source] = []
        try:
            for i, prompt in enumerate(prompts):
                sources.append(await self.client.submit(prompt, params, request_id=f"{name}-{i}", **options))
        except BaseException:
            for source in sources:
                source.abort()
            raise
        return sources

    def known(self, model: str | None) -> None:
        """ApiError 404 for a name that isn't served; none at all means the one there is."""
        if model and model not in self.names:
            raise ApiError(404, f"there is no model {model!r:.200}; there is {', '.join(self.names)}", "model")

    def _longest(self, params: SamplingParams) -> int:
        """Tokens of a prompt after which there is room for max_tokens, or for one if that isn't given."""
        return self.client.max_model_len - (1 if params.max_tokens is None else params.max_tokens)

    def _most(self, asked: int | None) -> int | None:
        return self.defaults.get("max_new_tokens") if asked is None else asked

    def _named(self, request: Sampling) -> Named:
        return Named(self.tokenizer, request.return_tokens_as_token_ids)

    def rendered(self, request: ChatRequest) -> tuple[str, str]:
        """The conversation as text, and what echo repeats of it."""
        messages = request.conversation()
        text = render(self.tokenizer, messages, request.tools, None, request.template_variables())
        if not request.continue_final_message:
            return text, ""
        final = messages[-1].get("content")
        shown = final if isinstance(final, str) else "\n".join(p["text"] for p in final or [])
        end = text.rfind(shown.strip())
        if not shown.strip() or end < 0:
            raise TemplateError("continue_final_message: the chat template doesn't write the last message's text as it is")
        return text[: end + len(shown.strip())], shown.strip() if request.echo else ""


def _check_scores(prompts: Sequence[list[int]], params: SamplingParams) -> None:
    """ApiError 400 for more scores of prompts than the server may be made to hold."""
    if params.prompt_logprobs is None:
        return
    tokens, each = sum(map(len, prompts)), params.prompt_logprobs + 1
    if tokens * each > MOST_SCORES:
        told = f"prompt_logprobs are {tokens} tokens with {each} scores each; at most {MOST_SCORES} scores are given at once"
        raise ApiError(400, f"{told}: ask for fewer, or for one prompt after the other", "prompt_logprobs")
