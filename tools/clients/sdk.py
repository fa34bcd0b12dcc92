"""OpenAI's own Python library, blocking and asynchronous."""

from __future__ import annotations

import asyncio
from typing import Any

import openai

from clients.call import Call, Outcome, Server, gathered

SECONDS = 120


def ask(call: Call, server: Server) -> Outcome:
    """Make a call by the blocking client."""
    with openai.OpenAI(**_options(call, server)) as client:
        try:
            return _outcome(_method(client, call)(**_arguments(call)))
        except openai.APIStatusError as error:
            return _refused(error)


def ask_async(call: Call, server: Server) -> Outcome:
    """Make a call, or several at once, by the asynchronous client."""
    return asyncio.run(_ask_async(call, server))


async def _ask_async(call: Call, server: Server) -> Outcome:
    async with openai.AsyncOpenAI(**_options(call, server)) as client:
        outcomes = await asyncio.gather(*(_once(client, call) for _ in range(call.times)))
    return outcomes[0] if call.times == 1 else Outcome(max(o.status for o in outcomes), [o.told for o in outcomes])


async def _once(client: openai.AsyncOpenAI, call: Call) -> Outcome:
    try:
        told = await _method(client, call)(**_arguments(call))
        if isinstance(told, openai.AsyncStream):
            return _of_frames([frame.model_dump(exclude_unset=True) async for frame in told])
        return _outcome(told)
    except openai.APIStatusError as error:
        return _refused(error)


def _options(call: Call, server: Server) -> dict[str, Any]:
    return {"base_url": f"{server.base}/v1", "api_key": call.key or server.key, "timeout": SECONDS, "max_retries": 0}


def _method(client: openai.OpenAI | openai.AsyncOpenAI, call: Call) -> Any:
    """The method of a route, such as client.chat.completions.create."""
    found: Any = client
    steps = call.route.removeprefix("/v1/").split("/")
    if steps[0] == "models":
        return client.models.retrieve if steps[1:] else client.models.list
    for step in steps:
        found = getattr(found, step)
    return found.create


def _arguments(call: Call) -> dict[str, Any]:
    if call.route.startswith("/v1/models/"):
        return {"model": call.route.removeprefix("/v1/models/")}
    return call.body or {}


def _outcome(told: Any) -> Outcome:
    if isinstance(told, openai.Stream):
        return _of_frames([frame.model_dump(exclude_unset=True) for frame in told])
    if hasattr(told, "output_text"):
        return Outcome(200, told.model_dump() | {"output_text": told.output_text})
    return Outcome(200, told.model_dump())


def _of_frames(frames: list[dict[str, Any]]) -> Outcome:
    if "type" in frames[0]:  # of the responses API: events
        text = "".join(f["delta"] for f in frames if f["type"] == "response.output_text.delta")
        return Outcome(200, {"first": frames[0], "last": frames[-1], "text": text, "kinds": [f["type"] for f in frames]})
    return Outcome(200, gathered(frames))


def _refused(error: openai.APIStatusError) -> Outcome:
    return Outcome(error.status_code, {"raised": type(error).__name__, "message": error.message, "param": error.param, "type": error.type})
