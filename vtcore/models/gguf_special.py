"""What single GGUF architectures say in their own way, or only by which tensors there are."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from vtcore.errors import ConfigError
from vtcore.formats.metadata import Metadata
from vtcore.models.config import LAYERS
from vtcore.models.fields import Json
from vtcore.models.gguf_states import STATE_READERS, kimi
from vtcore.models.weights import Weights

Reader = Callable[[Json, Metadata, Weights], Json]
ALTUP = {"num_inputs": "altup_num_inputs", "active_idx": "altup_active_idx"}


def _command_r(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Multiplies by what others divide by; heads are normalised if there is a weight for it."""
    return {"logit_scale": raw.get("logits_scaling"), "qk_layernorm": "blk.0.attn_q_norm.weight" in weights.tensors}


def _stablelm(raw: Json, m: Metadata, weights: Weights) -> Json:
    """The converter writes use_parallel_residual whether or not it is so; the second norm tells."""
    return {
        "use_parallel_residual": "blk.0.ffn_norm.weight" not in weights.tensors,
        "qk_layernorm": "blk.0.attn_q_norm.weight" in weights.tensors,
    }


def _falcon(raw: Json, m: Metadata, weights: Weights) -> Json:
    return {"num_ln_in_parallel_attn": 2 if "blk.0.attn_norm_2.weight" in weights.tensors else 1}


def _olmo2(raw: Json, m: Metadata, weights: Weights) -> Json:
    """OLMo 3 stretches the layers that see all, and not those with a window."""
    if not raw.get("sliding_window"):
        return {}
    plain = {"rope_type": "default", "rope_theta": raw.get("rope_theta")}
    return {"rope_parameters": {"sliding_attention": plain, "full_attention": plain | raw["rope_scaling"]}, "rope_scaling": None}


def _mistral3(raw: Json, m: Metadata, weights: Weights) -> Json:
    scaling = dict(raw["rope_scaling"])
    scaling["llama_4_scaling_beta"] = m.number("mistral3.attention.temperature_scale", 0.0)
    if all_dimensions := m.number("mistral3.rope.scaling.yarn_log_multiplier", 0.0):
        scaling |= {"mscale": 1.0, "mscale_all_dim": all_dimensions}
    return {"rope_scaling": scaling}


def _gpt_oss(raw: Json, m: Metadata, weights: Weights) -> Json:
    """The converter doesn't write that the range of yarn isn't rounded to whole channels."""
    return {"rope_scaling": raw["rope_scaling"] | {"truncate": False}}


def _glm4moe(raw: Json, m: Metadata, weights: Weights) -> Json:
    return {"use_qk_norm": "blk.0.attn_q_norm.weight" in weights.tensors}


def _latent(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Widths of what latent attention expands to; yarn's mscale for all dimensions, a tenth of it, and the one of its ratio."""
    name = m.text("general.architecture")
    turned = m.integer(f"{name}.rope.dimension_count", minimum=1)
    gating = {1: "softmax", 2: "sigmoid"}.get(m.integer(f"{name}.expert_gating_func", 1), "another")
    own: Json = {
        "kv_lora_rank": m.integer(f"{name}.attention.kv_lora_rank", minimum=1),
        "q_lora_rank": m.integer(f"{name}.attention.q_lora_rank", 0) or None,
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": m.integer(_expanded(m, "key_length"), minimum=turned + 1) - turned,
        "v_head_dim": m.integer(_expanded(m, "value_length"), minimum=1),
        "num_key_value_heads": raw.get("num_attention_heads"),
        "scoring_func": gating,
        "partial_rotary_factor": None,
    }
    if gating == "softmax":
        own["topk_method"] = "group_limited_greedy"
    if tenth := m.number(f"{name}.rope.scaling.yarn_log_multiplier", 0.0):
        own["rope_scaling"] = raw["rope_scaling"] | {"mscale": 10 * tenth, "mscale_all_dim": 10 * tenth}
    return own


def _expanded(m: Metadata, key: str) -> str:
    """Where a width of expanded heads is: older files, which say nothing of the latent, have it in the plain key."""
    plain = f"{m.text('general.architecture')}.attention.{key}"
    return f"{plain}_mla" if f"{plain}_mla" in m else plain


def _gptj(raw: Json, m: Metadata, weights: Weights) -> Json:
    return {"rotary_dim": m.integer("gptj.rope.dimension_count", minimum=1)}


def _minicpm3(raw: Json, m: Metadata, weights: Weights) -> Json:
    """The multipliers are not written: llama.cpp has those of the one model that there is."""
    turned = m.integer("minicpm3.rope.dimension_count", minimum=1)
    return {
        **{n: m.integer(f"minicpm3.attention.{n}", minimum=1) for n in ("q_lora_rank", "kv_lora_rank")},
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": m.integer("minicpm3.attention.key_length", minimum=turned + 1) - turned,
        "v_head_dim": m.integer("minicpm3.embedding_length", minimum=1) // m.integer("minicpm3.attention.head_count", minimum=1),
        "partial_rotary_factor": None,
        **{"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256},
    }


def _kimi(raw: Json, m: Metadata, weights: Weights) -> Json:
    return _latent(raw, m, weights) | kimi(raw, m, weights)


def _glm_dsa(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Layers that share a choice have no indexer."""
    layers: int = raw["num_hidden_layers"]
    indexers = [f"blk.{i}.indexer.attn_k.weight" in weights.tensors for i in range(layers)]
    numbers = {"index_n_heads": "head_count", "index_head_dim": "key_length", "index_topk": "top_k"}
    own: Json = {word: m.integer(f"glm-dsa.attention.indexer.{key}", minimum=1) for word, key in numbers.items()}
    return _latent(raw, m, weights) | own | {"indexer_types": ["full" if i else "shared" for i in indexers]}


def _gemma4(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Widths of heads by kind of layer; values that are keys are those that aren't there."""
    own = [n for n in range(m.integer("gemma4.block_count", maximum=LAYERS)) if f"blk.{n}.attn_k.weight" in weights.tensors]
    return {
        "enable_moe_block": "num_experts" in raw,
        "global_head_dim": raw.get("head_dim"),
        "head_dim": m.integer("gemma4.attention.key_length_swa", raw.get("head_dim")),
        "num_kv_shared_layers": m.integer("gemma4.attention.shared_kv_layers", 0),
        "hidden_size_per_layer_input": m.integer("gemma4.embedding_length_per_layer_input", 0),
        "attention_k_eq_v": any(f"blk.{n}.attn_v.weight" not in weights.tensors for n in own),
    }


def _gemma3n(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Gates must be over so many standard deviations: -inf where all pass. Old files write the number of shared layers with a point."""
    own: Json = {ours: m[f"gemma3n.altup.{n}"] for n, ours in ALTUP.items() if f"gemma3n.altup.{n}" in m}
    shared = float(m.number(key := "gemma3n.attention.shared_kv_layers", 15))
    own["hidden_size_per_layer_input"] = m.integer("gemma3n.embedding_length_per_layer_input", 256)
    own["num_kv_shared_layers"] = int(shared) if shared.is_integer() else m[key]
    bars = m.get("gemma3n.activation_sparsity_scale")
    if isinstance(bars, list) and all(isinstance(b, float) for b in bars):
        own["activation_sparsity_pattern"] = [NormalDist().cdf(b) for b in bars]
    elif bars is not None:
        raise m.wrong("gemma3n.activation_sparsity_scale", "a list of numbers")
    return own


READERS: dict[str, Reader] = {
    **STATE_READERS,
    "command-r": _command_r,
    "cohere2": _command_r,
    "stablelm": _stablelm,
    "falcon": _falcon,
    "olmo2": _olmo2,
    "mistral3": _mistral3,
    "gemma4": _gemma4,
    "gemma3n": _gemma3n,
    "deepseek2": _latent,
    "glm-dsa": _glm_dsa,
    "minicpm3": _minicpm3,
    "kimi-linear": _kimi,
    "gpt-oss": _gpt_oss,
    "gptj": _gptj,
    "glm4moe": _glm4moe,
}


class Number:
    """Metadata that a forward reads as an array: float32 [1]."""

    def __init__(self, value: float) -> None:
        self.data = np.array([value], np.float32)
        self.shape, self.dtype = self.data.shape, self.data.dtype

    def load(self, part: int | None = None) -> np.ndarray[Any, Any]:
        return self.data if part is None else self.data[part]


def numbers(m: Metadata, name: str) -> dict[str, Number]:
    """Apertus keeps the four numbers of each layer's curve as lists; here they are tensors, like those that safetensors hold."""
    if name != "apertus":
        return {}
    layers: int = m.integer("apertus.block_count", minimum=1, maximum=LAYERS)
    out: dict[str, Number] = {}
    for part in ("alpha_p", "alpha_n", "beta", "eps"):
        listed: list[float] = m.numbers(f"xielu.{part}")
        if len(listed) != layers:
            raise ConfigError(f"{m.source}: xielu.{part} has {len(listed)} entries; it must have one for each of {layers} layers")
        out |= {f"blk.{i}.xielu.{part}": Number(v) for i, v in enumerate(listed)}
    return out
