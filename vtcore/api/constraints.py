"""Fields that ask for what this engine can't do. Each is refused: an answer that ignores a constraint is a wrong answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vtcore.api.errors import ApiError

NOTHING: tuple[Any, ...] = (None, False, [], {})
UNSERVED: dict[str, tuple[str, tuple[Any, ...]]] = {  # name -> why, and the values besides NOTHING that ask for nothing
    "response_format": ("structured output isn't implemented", ({"type": "text"},)),
    "structured_outputs": ("structured output isn't implemented", ()),
    "guided_json": ("structured output isn't implemented", ()),
    "guided_regex": ("structured output isn't implemented", ()),
    "guided_choice": ("structured output isn't implemented", ()),
    "guided_grammar": ("structured output isn't implemented", ()),
    "guided_whitespace_pattern": ("structured output isn't implemented", ()),
    "structural_tag": ("structured output isn't implemented", ()),
    "grammar": ("structured output isn't implemented", ("",)),  # llama.cpp's and SGLang's names for it
    "json_schema": ("structured output isn't implemented", ()),
    "regex": ("structured output isn't implemented", ()),
    "ebnf": ("structured output isn't implemented", ()),
    "functions": ("tool calls aren't parsed", ()),
    "function_call": ("tool calls aren't parsed", ("none", "auto")),
    "use_beam_search": ("beam search isn't implemented", ()),
    "length_penalty": ("beam search isn't implemented", (1, 1.0)),
    "logprob_token_ids": ("log probabilities of chosen ids aren't implemented; logprobs gives the likeliest", ()),
    "prompt_embeds": ("prompts are text or token ids", ()),
    "suffix": ("filling in the middle isn't implemented", ("",)),
    "thinking_token_budget": ("thinking isn't told apart from the answer", ()),
    "repetition_detection": ("it isn't implemented", ()),
    "audio": ("answers are text", ()),
    "modalities": ("answers are text", (["text"],)),
    "kv_transfer_params": ("caches aren't transferred between engines", ()),
    "ec_transfer_params": ("caches aren't transferred between engines", ()),
    "truncation_side": ("a prompt that is too long loses its beginning", ("left",)),
    "logits_processors": ("code from a request isn't run", ()),
    "vllm_xargs": ("there are no plugins that would read them", ()),
    "watermarking": ("it isn't implemented", ()),
    "previous_input_messages": ("nothing is stored: send the conversation as input", ()),
    "max_new_tokens": ("it is max_tokens here", ()),  # other engines' names of it
    "n_predict": ("it is max_tokens here", (-1,)),
    "web_search_options": ("there is no web search", ()),
    "mm_processor_kwargs": ("this engine reads text", ()),
    "media_io_kwargs": ("this engine reads text", ()),
    "chat_template": ("a template from a request isn't trusted: the server's own is used", ()),
}


def refuse_unserved(extra: Mapping[str, Any] | None) -> None:
    """ApiError 400 for the first field of a body that asks for what can't be done; other unknown fields are nobody's constraint."""
    for name, value in (extra or {}).items():
        if name in UNSERVED and value not in NOTHING and value not in UNSERVED[name][1]:
            raise ApiError(400, f"{name} can't be honoured: {UNSERVED[name][0]}; leave it away", name)
