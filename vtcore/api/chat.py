"""A chat completion as it is asked for."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vtcore.api.body import one_of
from vtcore.api.constraints import refuse_unserved
from vtcore.api.errors import ApiError
from vtcore.api.sampling import MOST_LOGPROBS, Sampling

MOST_MESSAGES = 4096
TEXTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}  # a part's type, and where its text is
NOT_FOR_TEMPLATES = ("messages", "tools", "clock", "self")  # what a template has from elsewhere
Role = Literal["system", "user", "assistant", "tool", "developer", "function"]


class Message(BaseModel):
    """One turn. Templates may read more keys than these, so others are kept."""

    model_config = ConfigDict(extra="allow")

    role: Role
    content: Annotated[str | list[dict[str, Any]] | None, one_of("a text, a list of parts as {type, text}, or null")] = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None

    def plain(self) -> dict[str, Any]:
        """As a chat template reads it: the arguments of tool calls as data, parts of text only. ApiError 400 for other parts."""
        told = self.model_dump(exclude_none=True)
        if isinstance(self.content, list):
            told["content"] = [_text(part) for part in self.content]
        if self.tool_calls:
            told["tool_calls"] = [_with_arguments(call) for call in self.tool_calls]
        return told


class ChatRequest(Sampling):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES)]
    max_completion_tokens: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=0, description="the older name of max_completion_tokens")
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS)
    tools: list[dict[str, Any]] | None = None
    tool_choice: Annotated[str | dict[str, Any] | None, one_of("a word such as none, or an object")] = None
    add_generation_prompt: bool = True
    continue_final_message: bool = Field(False, description="go on with the last message instead of answering it")
    add_special_tokens: bool = Field(False, description="templates write their own")
    documents: list[dict[str, Any]] | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="variables for the template, such as enable_thinking")
    reasoning_effort: str | None = Field(None, max_length=64, description="for templates that read it, such as gpt-oss's")
    echo: bool = Field(False, description="put the last message before the answer, where that is continued")

    def check(self) -> None:
        """ApiError 400 for what can't be honoured, and for fields that contradict each other."""
        refuse_unserved(self.model_extra)
        super().check()
        if self.top_logprobs and not self.logprobs:
            raise ApiError(400, "top_logprobs needs logprobs: true", "top_logprobs")
        if self.continue_final_message and self.add_generation_prompt and "add_generation_prompt" in self.model_fields_set:
            raise ApiError(400, "continue_final_message and add_generation_prompt exclude each other", "continue_final_message")
        if self.echo and not self.continue_final_message:
            raise ApiError(400, "echo needs continue_final_message: an answer of its own has nothing to repeat", "echo")
        self._check_tools()

    def _check_tools(self) -> None:
        choice = "auto" if self.tool_choice is None and self.tools else self.tool_choice
        if choice in (None, "none"):
            return
        if not self.tools:
            if choice != "auto":
                raise ApiError(400, f"tool_choice is {str(choice)[:40]!r}, and there are no tools", "tool_choice")
            return
        raise ApiError(400, 'tool calls can\'t be told from text yet: send tool_choice "none", or no tools', "tools")

    @property
    def most_tokens(self) -> int | None:
        """The limit of new tokens, under either name; None: what the context leaves."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def asked_logprobs(self) -> int | None:
        """Alternatives for each token, or None."""
        return (self.top_logprobs or 0) if self.logprobs else None

    def conversation(self) -> list[dict[str, Any]]:
        """The messages as a template reads them."""
        return [m.plain() for m in self.messages]

    def template_variables(self) -> dict[str, Any]:
        """What a template is given besides messages and tools. ApiError 400 for what it has from other fields."""
        told = self.chat_template_kwargs or {}
        if taken := [name for name in NOT_FOR_TEMPLATES if name in told]:
            raise ApiError(400, f"chat_template_kwargs holds {taken[0]}, which a template has from elsewhere", "chat_template_kwargs")
        generation = self.add_generation_prompt and not self.continue_final_message
        extra = {n: value for n in ("documents", "reasoning_effort") if (value := getattr(self, n)) is not None}
        if told.get("add_generation_prompt", generation) is not generation:
            raise ApiError(400, "chat_template_kwargs holds add_generation_prompt, which is a field by itself", "chat_template_kwargs")
        return {**extra, **told, "add_generation_prompt": generation}


def _text(part: dict[str, Any]) -> dict[str, Any]:
    """A part as templates know it. What else a text part bears, such as cache_control, they may read."""
    kind = part.get("type")
    if not isinstance(kind, str) or kind not in TEXTS:
        raise ApiError(400, f"a content part of type {kind!r:.40} can't be read: this engine reads text", "messages")
    if not isinstance(text := part.get(TEXTS[kind]), str):
        raise ApiError(400, f"a content part of type {kind!r} has no {TEXTS[kind]}; it must be a string", "messages")
    return {**part, "type": "text", "text": text}


def _with_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(function["arguments"] or "{}")}}
    except (ValueError, RecursionError):
        raise ApiError(400, "the arguments of a tool call are no JSON", "messages") from None
