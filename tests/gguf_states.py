"""The numbers and value changes of llama.cpp's converter for recurrent and hybrid architectures, for `gguf_converter`. Written from what
the converter does, without the reader's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gguf
import numpy as np

from tests import gguf_mixtures

Config = dict[str, Any]
Arrays = dict[str, np.ndarray]
STATES = {
    "MambaForCausalLM": "mamba", "Mamba2ForCausalLM": "mamba2", "FalconH1ForCausalLM": "falcon-h1", "NemotronHForCausalLM": "nemotron_h",
    "Lfm2ForCausalLM": "lfm2", "Lfm2MoeForCausalLM": "lfm2moe", "JambaForCausalLM": "jamba", "GraniteMoeHybridForCausalLM": "granitehybrid",
    "Qwen3_5ForCausalLM": "qwen35", "Qwen3_5MoeForCausalLM": "qwen35moe", "Qwen3NextForCausalLM": "qwen3next",
    "KimiLinearForCausalLM": "kimi-linear", "BambaForCausalLM": "granitehybrid",
}  # fmt: skip
DELTA = {"qwen35", "qwen35moe", "qwen3next"}
WHOLE = {"falcon-h1"}  # multiplied values don't fit 16 bits
MAMBA2 = {"mamba2", "falcon-h1", "nemotron_h", "nemotron_h_moe", "granitehybrid"}


def name_of(architecture: str, c: Config) -> str:
    """The format has two names for Nemotron H."""
    name = STATES[architecture]
    return "nemotron_h_moe" if name == "nemotron_h" and "moe" in c["layers_block_type"] else name


def first(c: Config, *keys: str) -> Any:
    return next((c[k] for k in keys if c.get(k) is not None), None)


def add_numbers(writer: gguf.GGUFWriter, name: str, c: Config) -> None:
    layers, hidden = first(c, "num_hidden_layers") or len(c["layers_block_type"]), c["hidden_size"]
    writer.add_context_length(c.get("max_position_embeddings", 2**20))
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(first(c, "rms_norm_eps", "norm_eps", "layer_norm_epsilon"))
    if name in ("mamba", "mamba2"):
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
    else:
        add_attention(writer, name, c, attends(name, c, layers))
    add_scan(writer, name, c)
    gguf_mixtures.add_numbers(writer, name, c | {"num_experts_per_tok": first(c, "num_experts_per_tok", "num_experts_per_token")})
    if name == "kimi-linear":
        add_kimi(writer, c)
    if name in ("nemotron_h_moe", "lfm2moe"):
        writer.add_expert_weights_scale(c["routed_scaling_factor"])
        writer.add_expert_weights_norm(c["norm_topk_prob"])
    if name == "granitehybrid":
        add_granite(writer, c)


def add_granite(writer: gguf.GGUFWriter, c: Config) -> None:
    """Granite 4, with experts or none, and Bamba, which has no multipliers but a rope."""
    granite = c["model_type"] == "granitemoehybrid"
    if granite:
        gguf_mixtures.add_multipliers(writer, c)
    if granite and not c["num_local_experts"]:
        writer.add_expert_count(0)
        writer.add_expert_used_count(0)
        writer.add_expert_shared_feed_forward_length(c["shared_intermediate_size"])
    writer.add_rope_scaling_finetuned(not granite)


def add_kimi(writer: gguf.GGUFWriter, c: Config) -> None:
    """Latent attention as if all heads had one key; delta nets; experts."""
    latent, turned = c["kv_lora_rank"], c["qk_rope_head_dim"]
    writer.add_kv_lora_rank(latent)
    writer.add_key_length(latent + turned)
    writer.add_value_length(latent)
    writer.add_key_length_mla(c["qk_nope_head_dim"] + turned)
    writer.add_value_length_mla(c["v_head_dim"])
    writer.add_rope_dimension_count(turned)
    writer.add_kda_head_dim(c["linear_head_dim"])
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    writer.add_leading_dense_block_count(1)
    writer.add_expert_weights_scale(c["routed_scaling_factor"])
    writer.add_expert_weights_norm(c["moe_renormalize"])


def attends(name: str, c: Config, layers: int) -> list[bool]:
    """Which layers have keys."""
    if name == "falcon-h1":
        return [True] * layers
    if name == "jamba":
        return [(i - c["attn_layer_offset"]) % c["attn_layer_period"] == 0 for i in range(layers)]
    if "attn_layer_indices" in c:
        return [i in c["attn_layer_indices"] for i in range(layers)]
    return [k == "full_attention" for k in first(c, "layer_types", "layers_block_type")]


def add_attention(writer: gguf.GGUFWriter, name: str, c: Config, attending: list[bool]) -> None:
    heads, kv = c["num_attention_heads"], 1 if name == "kimi-linear" else c["num_key_value_heads"]
    head, each = c.get("head_dim") or c["hidden_size"] // heads, name not in DELTA and name != "falcon-h1"
    inner = c["intermediate_size"] if name != "lfm2" else 64
    writer.add_head_count(heads)
    writer.add_head_count_kv([kv if a else 0 for a in attending] if each else kv)
    parts = c.get("layers_block_type")
    writer.add_feed_forward_length([inner if p == "mlp" else 0 for p in parts] if parts else inner)
    writer.add_key_length(head)
    writer.add_value_length(head)
    rope = c.get("rope_parameters")
    if rope and name != "jamba":
        writer.add_rope_freq_base(rope["rope_theta"])
        writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    if name in DELTA:
        writer.add_full_attention_interval(4)


def add_scan(writer: gguf.GGUFWriter, name: str, c: Config) -> None:
    if name in ("lfm2", "lfm2moe"):
        writer.add_shortconv_l_cache(c["conv_L_cache"])
        return
    writer.add_ssm_conv_kernel(first(c, "conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"))
    if name == "kimi-linear":
        return
    if name in DELTA:
        many = c["linear_num_value_heads"]
        writer.add_ssm_state_size(c["linear_key_head_dim"])
        writer.add_ssm_group_count(c["linear_num_key_heads"])
        writer.add_ssm_time_step_rank(many)
        writer.add_ssm_inner_size(many * c["linear_value_head_dim"])
        return
    writer.add_ssm_state_size(first(c, "ssm_state_size", "state_size", "mamba_d_state"))
    if name in MAMBA2:
        many = first(c, "mamba_n_heads", "mamba_num_heads", "num_heads")
        writer.add_ssm_time_step_rank(many)
        writer.add_ssm_inner_size(many * first(c, "mamba_d_head", "mamba_head_dim", "head_dim"))
        writer.add_ssm_group_count(first(c, "n_groups", "mamba_n_groups"))
    else:
        writer.add_ssm_time_step_rank(first(c, "time_step_rank", "mamba_dt_rank"))
        writer.add_ssm_inner_size(2 * c["hidden_size"])


def tensors(weights: Arrays, name: str, c: Config) -> Iterator[tuple[str, np.ndarray]]:
    """Under the names of transformers, as the package's map knows them."""
    weights = {n: a for old, value in weights.items() for n, a in changed(old, value, name, c)}
    yield from gguf_mixtures.changed(weights, name).items()


def changed(old: str, value: np.ndarray, name: str, c: Config) -> Iterator[tuple[str, np.ndarray]]:
    """What one tensor becomes."""
    block = f"blk.{m[1]}." if (m := re.search(r"layers\.(\d+)", old)) else ""
    if name == "falcon-h1":
        value = multiplied(old, value, c)
    if name in ("qwen35", "qwen35moe") and "linear_attn." in old:
        value = in_turns(old, value, c)
    if old.endswith("A_log"):
        yield f"{block}ssm_a", -np.exp(value).reshape(-1, 1) if name in MAMBA2 else -np.exp(value)
    elif old.endswith(".D"):
        yield f"{block}ssm_d", value.reshape(-1, 1) if name in MAMBA2 else value
    elif old.endswith("dt_bias"):
        yield f"{block}ssm_dt.bias", value
    elif name == "kimi-linear" and "conv1d" in old:
        yield old, value.reshape(1, len(value), 1, -1)
    elif "kv_b_proj" in old:
        both = value.reshape(c["num_attention_heads"], -1, value.shape[1])
        yield f"{block}attn_k_b.weight", both[:, : c["qk_nope_head_dim"]].swapaxes(1, 2)
        yield f"{block}attn_v_b.weight", both[:, c["qk_nope_head_dim"] :]
    elif "conv1d.weight" in old or old.endswith("conv.conv.weight"):
        yield old, value.squeeze(1)
    elif name in MAMBA2 and old.endswith(("mixer.norm.weight", "mamba.norm.weight")):
        yield old, value.reshape(first(c, "n_groups", "mamba_n_groups"), -1)
    elif name in DELTA and old.endswith("norm.weight") and "linear_attn" not in old:
        yield old, value + 1
    elif name == "qwen3next" and "in_proj_qkvz" in old:
        yield from zip((f"{block}attn_qkv.weight", f"{block}attn_gate.weight"), unpacked(value, c), strict=True)
    elif name == "granitehybrid" and ("q_proj" in old or "k_proj" in old):
        heads = c["num_attention_heads" if "q_proj" in old else "num_key_value_heads"]
        yield old, value.reshape(heads, 2, -1, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
    elif old.endswith("expert_bias"):
        yield f"{block}exp_probs_b.bias", value
    elif name == "lfm2moe" and (match := re.fullmatch(r"(.*\.experts\.\d+)\.w([123])\.weight", old)):
        yield f"{match[1]}.{('gate', 'down', 'up')[int(match[2]) - 1]}_proj.weight", value
    else:
        yield old.replace("backbone", "model").replace("mixer", "mlp") if ".experts." in old else old, value


def multiplied(old: str, value: np.ndarray, c: Config) -> np.ndarray:
    """The multipliers of Falcon H1 in the matrices that they belong to."""
    for part, factor in (
        ("down_proj", c["mlp_multipliers"][1]), ("gate_proj", c["mlp_multipliers"][0]), ("q_proj", c["attention_in_multiplier"]),
        ("k_proj", c["key_multiplier"] * c["attention_in_multiplier"]), ("v_proj", c["attention_in_multiplier"]),
        ("o_proj", c["attention_out_multiplier"]), ("out_proj", c["ssm_out_multiplier"]), ("in_proj", c["ssm_in_multiplier"]),
        ("lm_head", c["lm_head_multiplier"]), ("embed_tokens", c["embedding_multiplier"]),
    ):  # fmt: skip
        if re.search(rf"(\.|^){part}\.weight$", old):
            value = value * np.float32(factor)
    if "in_proj" in old:
        wide = c["mamba_n_groups"] * c["mamba_d_state"]
        parts = np.split(value, np.cumsum([c["mamba_d_ssm"], c["mamba_d_ssm"], wide, wide]))
        value = np.concatenate([p * np.float32(f) for p, f in zip(parts, c["ssm_multipliers"], strict=True)])
    return value


def in_turns(old: str, value: np.ndarray, c: Config) -> np.ndarray:
    """Heads of values by turns of the heads of keys: those that one key serves lie apart."""
    few, many, width = c["linear_num_key_heads"], c["linear_num_value_heads"], c["linear_value_head_dim"]
    keys = 2 * few * c["linear_key_head_dim"]
    if "in_proj_qkv" in old or "conv1d" in old:
        return np.concatenate([value[:keys], turned(value[keys:], few, many, width)])
    if "out_proj" in old:
        return turned(value.T, few, many, width).T
    if any(n in old for n in ("in_proj_z", "in_proj_a", "in_proj_b", "A_log", "dt_bias")):
        return turned(value, few, many, width if "in_proj_z" in old else 1)
    return value


def turned(value: np.ndarray, few: int, many: int, width: int) -> np.ndarray:
    """Rows [few, many / few, width] as [many / few, few, width]."""
    return value.reshape(few, many // few, width, *value.shape[1:]).swapaxes(0, 1).reshape(value.shape)


def unpacked(value: np.ndarray, c: Config) -> tuple[np.ndarray, np.ndarray]:
    """Queries, keys and values of all heads of keys; and the gates."""
    few, k = c["linear_num_key_heads"], c["linear_key_head_dim"]
    own = c["linear_num_value_heads"] // few * c["linear_value_head_dim"]
    parts = [p.reshape(-1, value.shape[1]) for p in np.split(value.reshape(few, -1, value.shape[1]), [k, 2 * k, 2 * k + own], axis=1)]
    return np.concatenate(parts[:3]), parts[3]
