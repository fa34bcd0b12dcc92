"""LangChain's client of OpenAI's API: a third party's reading of the answers."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI, OpenAI

from clients.call import Call, Outcome, Server

SECONDS = 120


def ask(call: Call, server: Server) -> Outcome:
    """Make a call. The answer's text is under "text", of several under "texts"."""
    asked = dict(call.body or {})
    common: dict[str, Any] = {"base_url": f"{server.base}/v1", "api_key": call.key or server.key, "timeout": SECONDS, "max_retries": 0}
    try:
        if call.route == "/v1/completions":
            prompt = asked.pop("prompt")
            return Outcome(200, {"text": OpenAI(**common, **asked).invoke(prompt)})
        messages, stream = asked.pop("messages"), asked.pop("stream", False)
        model = ChatOpenAI(**common, **asked, stream_usage=True)
        return Outcome(200, _told(model, messages, stream, call.times))
    except openai.APIStatusError as error:
        raised = next(kind for kind in type(error).__mro__ if hasattr(openai, kind.__name__))  # LangChain raises kinds of these
        return Outcome(error.status_code, {"raised": raised.__name__})


def _told(model: ChatOpenAI, messages: Any, stream: bool, times: int) -> dict[str, Any]:
    if times > 1:
        return {"texts": [m.text for m in asyncio.run(model.abatch([messages] * times))]}
    if stream:
        chunks = list(model.stream(messages))
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return _message(whole) | {"chunks": len(chunks)}
    return _message(model.invoke(messages))


def _message(said: AIMessage) -> dict[str, Any]:
    return {"text": said.text, "usage": said.usage_metadata, "about": said.response_metadata}
