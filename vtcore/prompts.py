"""What a caller may give as prompts, brought into one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError, PromptError
from vtcore.sampling_params import SamplingParams
from vtcore.text.tokenizer import Tokenizer

Ids = Sequence[int]
Prompt = str | Mapping[str, Any] | Ids  # a text, {"prompt": text}, {"prompt_token_ids": ids}, or ids
FORMS = 'a text, a list of token ids, {"prompt": text} or {"prompt_token_ids": ids}, either with a "cache_salt" or without'


@dataclass(frozen=True)
class Parsed:
    """A prompt as text or as token ids."""

    text: str | None
    token_ids: Any = None
    cache_salt: Any = None


def parse_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Parsed]:
    """One prompt or a list of them; a bare list of integers is one. Raises PromptError, with its place, for what is no prompt."""
    if _is_one(prompts):
        return [parse_prompt(prompts)]
    if not isinstance(prompts, Sequence) or isinstance(prompts, (bytes, bytearray)):
        raise PromptError(f"prompts is {type(prompts).__name__}; it must be a prompt ({FORMS}) or a list of prompts")
    return [parse_prompt(p, f"prompt {i}: ") for i, p in enumerate(prompts)]


def parse_prompt(prompt: Any, where: str = "") -> Parsed:
    """One prompt."""
    if isinstance(prompt, str):
        return Parsed(prompt)
    if isinstance(prompt, Mapping):
        return _from_mapping(prompt, where)
    if _is_ids(prompt) or _is_none(prompt):
        return Parsed(None, prompt)
    raise PromptError(f"{where}{prompt!r:.80} is no prompt; give {FORMS}")


def pair_params(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    """Sampling parameters for each of so many prompts: the same for all, or one each; None: the defaults."""
    given = SamplingParams() if params is None else params
    each = [given] * count if isinstance(given, SamplingParams) else list(given) if isinstance(given, Sequence) else [given]
    if wrong := [p for p in each if not isinstance(p, SamplingParams)]:
        raise ArgumentError(f"sampling_params holds {wrong[0]!r:.80}; it must be SamplingParams, or a list with one for each prompt")
    if len(each) != count:
        raise ArgumentError(f"sampling_params has {len(each)} entries for {count} prompts; give one for all, or one for each")
    return each


def render(tokenizer: Tokenizer, messages: Any, tools: Any, chat_template: str | None, options: dict[str, Any]) -> str:
    """A conversation as its chat template writes it.

    Raises PromptError for one without messages, ArgumentError for tools that are no list, TemplateError where the template refuses."""
    if not messages:
        raise PromptError("the conversation has no messages; it must have at least one")
    if tools is not None and (not isinstance(tools, (list, tuple)) or not all(isinstance(t, Mapping) for t in tools)):
        raise ArgumentError(f"tools is {tools!r:.80}; it must be a list of JSON schemas")
    return str(tokenizer.template(chat_template, tools).render(messages, tools=tools, **options))


def _from_mapping(prompt: Mapping[str, Any], where: str) -> Parsed:
    salt, names = prompt.get("cache_salt"), set(prompt) - {"cache_salt"}
    if names == {"prompt"} and isinstance(prompt["prompt"], str):
        return Parsed(prompt["prompt"], None, salt)
    if names == {"prompt_token_ids"} and (_is_ids(ids := prompt["prompt_token_ids"]) or _is_none(ids)):
        return Parsed(None, ids, salt)
    held = ", ".join(f"{key!r}: {type(value).__name__}" for key, value in prompt.items())
    raise PromptError(f"{where}a mapping with {held[:200] or 'nothing'} is no prompt; give {FORMS}")


def _is_one(prompts: Any) -> bool:
    return isinstance(prompts, (str, Mapping)) or _is_ids(prompts)


def _is_none(value: Any) -> bool:
    """Whether it is a list without an entry: ids, but none of them."""
    return isinstance(value, (list, tuple)) and not value


def _is_ids(value: Any) -> bool:
    """Whether it can only be token ids: numbers all through, right or wrong ones."""
    if hasattr(value, "dtype") and hasattr(value, "ndim"):
        return bool(value.ndim == 1 and value.dtype.kind in "iuf")
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(i, (int, float, np.number)) for i in value)
