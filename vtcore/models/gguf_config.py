"""What GGUF metadata say of a model, in the words of config.json: then everything behind is the same for both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vtcore.errors import ConfigError
from vtcore.formats.metadata import Metadata
from vtcore.models.config import LAYERS
from vtcore.models.fields import Json
from vtcore.models.gguf_special import READERS
from vtcore.models.rope_config import turning
from vtcore.models.weights import Weights

WORDS = {
    "block_count": "num_hidden_layers", "embedding_length": "hidden_size", "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads", "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps", "attention.layer_norm_epsilon": "layer_norm_eps",
    "attention.sliding_window": "sliding_window", "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping", "attention.scale": "attention_multiplier",
    "embedding_scale": "embedding_multiplier", "residual_scale": "residual_multiplier", "logit_scale": "logits_scaling",
    "rope.freq_base": "rope_theta", "rope.freq_base_swa": "rope_local_base_freq", "use_parallel_residual": "use_parallel_residual",
    "expert_count": "num_experts", "expert_used_count": "num_experts_per_tok", "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_intermediate_size",
    "expert_group_count": "n_group", "expert_group_used_count": "topk_group", "expert_weights_scale": "routed_scaling_factor",
    "expert_weights_norm": "norm_topk_prob", "nextn_predict_layers": "num_nextn_predict_layers",
    "expert_gating_func": "expert_gating_func", "attention.clamp_kqv": "clip_qkv", "attention.max_alibi_bias": "alibi_bias_max",
}  # fmt: skip
PER_LAYER = {"attention.head_count_kv": "num_key_value_heads", "feed_forward_length": "intermediate_size"}
SCALING = {
    "factor": "factor", "original_context_length": "original_max_position_embeddings", "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow", "alpha": "alpha",
}  # fmt: skip


def architecture_name(m: Metadata) -> str:
    """general.architecture."""
    name: str = m.text("general.architecture")
    return name


def as_hf(m: Metadata, weights: Weights) -> tuple[Json, Mapping[str, str]]:
    """The numbers by config.json's keys, and for each of those the key that the file has.

    Tensors that are numbers rather than weights (what frequencies are divided by) are read here."""
    name = architecture_name(m)
    spelled = {word: f"{name}.{key}" for key, word in (WORDS | PER_LAYER).items()} | {"vocab_size": "rows of token_embd.weight"}
    raw: Json = {word: m[key] for word, key in spelled.items() if key in m}
    layers: int = m.integer(f"{name}.block_count", minimum=1, maximum=LAYERS)
    raw |= _per_layer(m, name, layers) | _windows(m, name, layers)
    if f"{name}.expert_count" in m:
        layers -= m.integer(f"{name}.nextn_predict_layers", 0, minimum=0, maximum=layers - 1)
        routed = [f"blk.{i}.ffn_gate_inp.weight" in weights.tensors for i in range(layers)]
        raw |= {"num_hidden_layers": layers, "mlp_layer_types": ["sparse" if r else "dense" for r in routed]}
    if (table := weights.tensors.get("token_embd.weight")) is not None and table.shape:
        raw["vocab_size"] = m[key] if (key := f"{name}.vocab_size") in m else table.shape[0]
        spelled["vocab_size"] = key if key in m else spelled["vocab_size"]
    raw["tie_word_embeddings"] = "output.weight" not in weights.tensors
    if (turned := m.integer(f"{name}.rope.dimension_count", 0)) and (width := _head_dim(raw)):
        raw["partial_rotary_factor"] = turning(turned, width)
    raw["rope_scaling"] = _scaling(m, name, weights)
    raw |= SPECIAL.get(name, _nothing_special)(raw)
    return raw | (READERS[name](raw, m, weights) if name in READERS else {}), spelled


def _per_layer(m: Metadata, name: str, layers: int) -> Json:
    """Numbers that may be one for all layers or one for each."""
    out: Json = {}
    single: dict[int, Json] = {}
    for key, word in PER_LAYER.items():
        if not isinstance(m.get(f"{name}.{key}"), list):
            continue
        each: list[int] = m.per_layer(f"{name}.{key}", layers)
        out[word] = max(each)
        for i, n in enumerate(each):
            single.setdefault(i, {})[word] = n
    return out | ({"per_layer_config": {str(i): own for i, own in single.items()}} if single else {})


def _windows(m: Metadata, name: str, layers: int) -> Json:
    """Which layers see only a window: by a list of booleans, or by every how many layers one sees all."""
    key, window = f"{name}.attention.sliding_window_pattern", m.get(f"{name}.attention.sliding_window")
    out: Json = {"use_sliding_window": bool(window)}
    if isinstance(m.get(key), list):
        sliding: list[bool] = m.booleans(key)
        if len(sliding) < layers:
            raise ConfigError(f"{m.source}: {key} has {len(sliding)} entries; it must have one for each of {layers} layers")
        out["layer_types"] = ["sliding_attention" if s else "full_attention" for s in sliding[:layers]]
    elif key in m:
        out["sliding_window_pattern"] = m.integer(key, minimum=1)
    return out


def _head_dim(raw: Json) -> int:
    """The width of a head as far as it can be known here; what is wrong with these numbers is said when they are read."""
    width, hidden, heads = raw.get("head_dim"), raw.get("hidden_size"), raw.get("num_attention_heads")
    if isinstance(width, int):
        return width
    return hidden // heads if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 else 0


def _scaling(m: Metadata, name: str, weights: Weights) -> Json:
    """rope.scaling.* and the tensors of factors. A factor without a type is a linear one, under its old key too (llama.cpp's rule)."""
    base, old = f"{name}.rope.scaling.", f"{name}.rope.scale_linear"
    p: Json = {word: m[base + key] for key, word in SCALING.items() if base + key in m}
    stretch = m.number(base + "factor", m.number(old, 0.0))
    kind: str = m.text(base + "type", "linear" if stretch else "none")
    factor: float = m.number(base + "attn_factor", 1.0)
    if kind in ("linear", "yarn") and stretch < 0:
        raise m.wrong(base + "factor" if base + "factor" in m else old, "a number from 0 on")
    if (long := _numbers(weights, "rope_factors_long.weight")) is not None:
        short = _numbers(weights, "rope_factors_short.weight")
        return p | {"rope_type": "longrope", "long_factor": long, "short_factor": short, "attention_factor": factor}
    if (divisors := _numbers(weights, "rope_freqs.weight")) is not None:
        return {"rope_type": "divided", "divisors": divisors}
    if kind not in ("none", "linear", "yarn", "longrope"):
        raise ConfigError(f"{m.source}: {base}type is {kind!r}; it must be none, linear, yarn or longrope")
    if kind == "yarn" and factor != 1.0:
        p["attention_factor"] = factor * (1 + 0.1 * math.log(max(1.0, stretch)))
    if kind == "linear":
        return p | ({"rope_type": "linear", "factor": stretch} if stretch else {"rope_type": "default"})
    return p | {"rope_type": {"none": "dynamic" if "alpha" in p else "default"}.get(kind, kind)}


def _numbers(weights: Weights, name: str) -> list[float] | None:
    """A small tensor as numbers."""
    if name not in weights.tensors:
        return None
    weights.used.add(name)
    return [float(v) for v in np.asarray(weights.tensors[name].load(), np.float32).reshape(-1)]


def _nothing_special(raw: Json) -> Json:
    return {}


def _gemma(layers_of_27b: int) -> Callable[[Json], Json]:
    """The file doesn't hold query_pre_attn_scalar: it is the width of a head, except in the 27B."""

    def scalar(raw: Json) -> Json:
        largest = raw.get("num_hidden_layers") == layers_of_27b
        width: Any = _head_dim(raw | {"head_dim": None}) if largest else _head_dim(raw)
        return {"query_pre_attn_scalar": width} if width else {}

    return scalar


SPECIAL: dict[str, Callable[[Json], Json]] = {"gemma2": _gemma(46), "gemma3": _gemma(62)}
