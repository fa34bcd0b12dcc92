"""A response, in the newer of OpenAI's two shapes, as it is asked for. Nothing is stored: a conversation is sent whole each time."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from vtcore.api.body import one_of
from vtcore.api.chat import MOST_MESSAGES, ChatRequest
from vtcore.api.constraints import NOTHING, refuse_unserved
from vtcore.api.errors import ApiError
from vtcore.api.sampling import MOST_LOGPROBS, Sampling

STATEFUL = ("previous_response_id", "conversation", "background", "prompt")


class ResponsesRequest(Sampling):
    """POST /v1/responses."""

    input: Annotated[
        str | Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_MESSAGES)],
        one_of(f"a text, or a list of 1 to {MOST_MESSAGES} items"),
    ]
    instructions: str | None = Field(None, description="a system message before the input")
    max_output_tokens: int | None = Field(None, ge=1)
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    text: dict[str, Any] | None = Field(None, description="its format may be {type: text} only")
    tools: list[dict[str, Any]] | None = None
    tool_choice: Annotated[str | dict[str, Any] | None, one_of("a word such as none, or an object")] = None
    reasoning: dict[str, Any] | None = Field(None, description="its effort is chat completions' reasoning_effort")
    include: list[str] | None = Field(None, description="message.output_text.logprobs, or nothing")
    store: bool | None = Field(None, description="nothing is stored, whatever is asked")
    truncation: str | None = None
    metadata: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="as in chat completions")

    def check(self) -> None:
        """ApiError 400 for what needs a memory of earlier answers, or can't be honoured."""
        refuse_unserved(self.model_extra)
        super().check()
        for name in STATEFUL:
            if (self.model_extra or {}).get(name) not in NOTHING:
                raise ApiError(400, f"{name} needs stored answers, and none are stored: send the conversation as input", name)
        if (self.text or {}).get("format") not in (None, {"type": "text"}):
            raise ApiError(400, "text.format can't be honoured: structured output isn't implemented", "text")
        if self.truncation not in (None, "disabled"):
            raise ApiError(400, f"truncation is {self.truncation!r:.40}: an input is never cut; shorten it", "truncation")
        if self.n not in (None, 1):
            raise ApiError(400, f"n is {self.n}; a response is one", "n")
        for name in ("prompt_logprobs", "return_token_ids"):
            if (asked := getattr(self, name)) is not None and asked is not False:
                raise ApiError(400, f"{name} has no place in a response; /v1/chat/completions gives it", name)

    def as_chat(self) -> ChatRequest:
        """The same as a chat completion."""
        shared = {n: getattr(self, n) for n in Sampling.model_fields if n in self.model_fields_set and n != "stream_options"}
        messages = [{"role": "system", "content": self.instructions}] if self.instructions else []
        messages += [{"role": "user", "content": self.input}] if isinstance(self.input, str) else _messages(self.input)
        wanted = self.top_logprobs is not None or "message.output_text.logprobs" in (self.include or ())
        return ChatRequest.model_validate(
            {
                **shared,
                "messages": messages,
                "max_completion_tokens": self.max_output_tokens,
                "logprobs": wanted,
                "top_logprobs": self.top_logprobs if wanted else None,
                "tools": self.tools,
                "chat_template_kwargs": self.chat_template_kwargs,
                "tool_choice": self.tool_choice,
                "reasoning_effort": (self.reasoning or {}).get("effort"),
            }
        )


def _messages(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    told = []
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            told.append({"role": item.get("role"), "content": item.get("content")})
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            told.append({"role": "assistant", "tool_calls": [{"id": item.get("call_id"), "type": "function", "function": function}]})
        elif kind == "function_call_output":
            told.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        else:
            raise ApiError(
                400, f"input.{number} is of type {kind!r:.40}; it may be message, function_call or function_call_output", "input"
            )
    return told
