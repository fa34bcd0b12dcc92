"""What GGUF files of recurrent and hybrid architectures say of their layers: sizes under `ssm.`; kinds, by which tensors there are."""

from __future__ import annotations

from vtcore.errors import ConfigError
from vtcore.formats.metadata import Metadata
from vtcore.models.config import LAYERS
from vtcore.models.fields import Json
from vtcore.models.weights import Weights

MANY = 1 << 20
NEMOTRON = {"ssm_in": "mamba", "attn_q": "full_attention", "ffn_gate_inp": "moe", "ffn_up": "mlp"}  # by a tensor that the kind has


def _size(m: Metadata, name: str, key: str) -> int:
    """A number under `ssm.`."""
    size: int = m.integer(f"{name}.ssm.{key}", minimum=1, maximum=MANY)
    return size


def _width(m: Metadata, name: str) -> int:
    """Of a head: all channels over the number of heads."""
    inner, many = _size(m, name, "inner_size"), _size(m, name, "time_step_rank")
    if inner % many:
        raise ConfigError(f"{m.source}: {name}.ssm.inner_size is {inner}; it must be a multiple of {name}.ssm.time_step_rank, {many}")
    return inner // many


def _kinds(m: Metadata, name: str, weights: Weights, other: str) -> list[str]:
    """Layers with queries attend."""
    layers: int = m.integer(f"{name}.block_count", minimum=1, maximum=LAYERS)
    return ["full_attention" if f"blk.{i}.attn_q.weight" in weights.tensors else other for i in range(layers)]


def mamba(raw: Json, m: Metadata, weights: Weights) -> Json:
    """No attention and no MLP: the file says 0 of both."""
    return {
        "num_attention_heads": None,
        "num_key_value_heads": None,
        "intermediate_size": _size(m, "mamba", "inner_size"),
        "state_size": _size(m, "mamba", "state_size"),
        "conv_kernel": _size(m, "mamba", "conv_kernel"),
    }


def mamba2(raw: Json, m: Metadata, weights: Weights) -> Json:
    """The same, with heads of the scan."""
    return {
        "num_attention_heads": _size(m, "mamba2", "time_step_rank"),
        "num_key_value_heads": None,
        "head_dim": _width(m, "mamba2"),
        "intermediate_size": None,
        "n_groups": _size(m, "mamba2", "group_count"),
        "state_size": _size(m, "mamba2", "state_size"),
        "conv_kernel": _size(m, "mamba2", "conv_kernel"),
    }


def _scan(m: Metadata, name: str) -> Json:
    return {
        "mamba_n_heads": _size(m, name, "time_step_rank"),
        "mamba_d_head": _width(m, name),
        "mamba_n_groups": _size(m, name, "group_count"),
        "mamba_d_state": _size(m, name, "state_size"),
        "mamba_d_conv": _size(m, name, "conv_kernel"),
    }


def falcon_h1(raw: Json, m: Metadata, weights: Weights) -> Json:
    """The multipliers are in the weights already."""
    return _scan(m, "falcon-h1") | {"mamba_rms_norm": "blk.0.ssm_norm.weight" in weights.tensors}


def granite_hybrid(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Whether there is a rope is said by a word that is meant for another thing. Without Granite's multipliers it is Bamba."""
    name = "granitehybrid"
    turning: bool = m.boolean(f"{name}.rope.scaling.finetuned", False)
    own: Json = {"layer_types": _kinds(m, name, weights, "mamba"), "position_embedding_type": "rope" if turning else "nope"}
    if "attention_multiplier" not in raw:
        own["attn_layer_indices"] = [i for i, kind in enumerate(own["layer_types"]) if kind == "full_attention"]
    return _scan(m, name) | own | {"per_layer_config": None, "num_experts": raw.get("num_experts", 0)}


def jamba(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Which layers attend, by their tensors."""
    hidden: int = m.integer("jamba.embedding_length", minimum=1)
    return {
        "layer_types": _kinds(m, "jamba", weights, "mamba"),
        "per_layer_config": None,
        "mamba_expand": max(1, _size(m, "jamba", "inner_size") // hidden),
        "mamba_d_state": _size(m, "jamba", "state_size"),
        "mamba_d_conv": _size(m, "jamba", "conv_kernel"),
    }


def nemotron_h(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Which part each layer is, by its tensors."""
    name: str = m.text("general.architecture")
    layers: int = m.integer(f"{name}.block_count", minimum=1, maximum=LAYERS)
    parts = [next((k for t, k in NEMOTRON.items() if f"blk.{i}.{t}.weight" in weights.tensors), "mlp") for i in range(layers)]
    return {
        "layers_block_type": parts,
        "intermediate_size": raw.get("intermediate_size") or None,
        "mlp_layer_types": None,
        "per_layer_config": None,
        "mamba_num_heads": _size(m, name, "time_step_rank"),
        "mamba_head_dim": _width(m, name),
        "n_groups": _size(m, name, "group_count"),
        "ssm_state_size": _size(m, name, "state_size"),
        "conv_kernel": _size(m, name, "conv_kernel"),
    }


def lfm2(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Which layers attend, by their tensors."""
    name: str = m.text("general.architecture")
    tokens: int = m.integer(f"{name}.shortconv.l_cache", minimum=2, maximum=MANY)
    return {"layer_types": _kinds(m, name, weights, "conv"), "per_layer_config": None, "conv_L_cache": tokens}


def delta(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Delta nets in the words of state space models. Heads of values take turns at the heads of keys, but not in the first of them."""
    name: str = m.text("general.architecture")
    return {
        "layer_types": _kinds(m, name, weights, "linear_attention"),
        "linear_conv_kernel_dim": _size(m, name, "conv_kernel"),
        "linear_key_head_dim": _size(m, name, "state_size"),
        "linear_num_key_heads": _size(m, name, "group_count"),
        "linear_num_value_heads": _size(m, name, "time_step_rank"),
        "linear_value_head_dim": _width(m, name),
        "linear_heads_in_turns": name != "qwen3next",
    }


def kimi(raw: Json, m: Metadata, weights: Weights) -> Json:
    """Delta nets beside latent attention, whose numbers come apart: layers with keys attend."""
    name = "kimi-linear"
    layers: int = m.integer(f"{name}.block_count", minimum=1, maximum=LAYERS)
    width: int = m.integer(f"{name}.kda.head_dim", minimum=1, maximum=MANY)
    attending = [f"blk.{i}.attn_kv_a_mqa.weight" in weights.tensors for i in range(layers)]
    return {
        "layer_types": ["full_attention" if a else "linear_attention" for a in attending],
        "per_layer_config": None,
        "linear_num_heads": raw.get("num_attention_heads"),
        "linear_head_dim": width,
        "linear_conv_kernel_dim": _size(m, name, "conv_kernel"),
    }


STATE_READERS = {
    "mamba": mamba, "mamba2": mamba2, "falcon-h1": falcon_h1, "granitehybrid": granite_hybrid, "jamba": jamba, "nemotron_h": nemotron_h,
    "nemotron_h_moe": nemotron_h, "lfm2": lfm2, "lfm2moe": lfm2, "qwen35": delta, "qwen35moe": delta, "qwen3next": delta,
}  # fmt: skip
