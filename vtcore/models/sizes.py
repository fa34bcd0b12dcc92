"""Sizes that both the config and the tensors tell: which number disagrees, and what all of them are."""

from __future__ import annotations

import re

from vtcore.formats.metadata import short
from vtcore.models.config import ModelConfig

MOST, SHORT = 48, 4  # numbers that an error shows, and entries of a list
OWN_WIDTHS = ("use_double_wide_mlp", "conv_L_cache", "floor_scale", "hidden_size_per_layer_input")  # where an MLP may be of another width
RATES = ("linear_num_value_heads", "linear_num_heads")  # how many rates there are, which a product would else take for one of all
NO_SIZE = re.compile(r"token|_id$|version|seed|use_cache")


def contradiction(name: str, shape: tuple[int, ...], c: ModelConfig) -> str | None:
    """What the config says otherwise of the weight [N, K] that a forward calls `name`; None where nothing, or nothing that is known."""
    if name == "embed_tokens" and shape[-1] != (wide := c.rest.get("word_embed_proj_dim") or c.hidden):
        return f"{said(c, 'hidden_size')} is {wide}"
    if other := _counted(name, shape, c):
        return other
    if len(shape) != 2 or c.rest.get("kv_lora_rank"):
        return None
    if name in ("embed_tokens", "lm_head") and c.vocab not in (0, shape[0]):
        return f"{said(c, 'vocab_size')} is {c.vocab}"
    heads = {"q_proj": ("num_attention_heads", c.heads), "k_proj": ("num_key_value_heads", c.kv_heads)}
    if name in heads and heads[name][1] * c.head_dim != shape[0]:
        return f"{said(c, heads[name][0])} is {heads[name][1]}, and a head has {c.head_dim} channels ({said(c, 'head_dim')})"
    inner = None if any(c.rest.get(n) for n in OWN_WIDTHS) else c.rest.get("intermediate_size")
    if name == "up_proj" and type(inner) is int and inner != shape[0]:
        return f"{said(c, 'intermediate_size')} is {inner}"
    return None


def _counted(name: str, shape: tuple[int, ...], c: ModelConfig) -> str | None:
    """Of tables with an entry for each expert, token or head, which no product would find too long or too short."""
    if name == "router" and (many := c.rest.get("num_experts")) not in (None, shape[0]):
        return f"{said(c, 'num_experts')} is {many}"
    if name == "by_token" and (c.vocab or shape[0], c.rest.get("num_experts_per_tok")) != shape:
        return f"{said(c, 'vocab_size')} is {c.vocab} and {said(c, 'num_experts_per_tok')} {c.rest.get('num_experts_per_tok')}"
    if name == "rate" and shape == (1,) and (key := next(filter(c.rest.get, RATES), None)) and c.rest[key] != 1:
        return f"{said(c, key)} is {c.rest[key]}"
    return None


def told(c: ModelConfig) -> str:
    """What of a config shapes may follow from: whole numbers, what is switched on, short lists."""
    kept = {n: v for n, v in c.rest.items() if type(v) is int or v is True or (type(v) is list and len(v) <= SHORT)}
    sizes = {n: v for n, v in kept.items() if not NO_SIZE.search(n)}
    return ", ".join(f"{said(c, n)} {short(v)}" for n, v in list(sizes.items())[:MOST])


def said(c: ModelConfig, key: str) -> str:
    """A key as the file spells it."""
    return c.spelled.get(key, key)
