"""The numbers and value changes of llama.cpp's converter for mixtures of experts, for `gguf_families`. Written from what the converter
does, without the reader's tables."""

from __future__ import annotations

import re
from typing import Any

import gguf
import numpy as np

Config = dict[str, Any]
Arrays = dict[str, np.ndarray]
MIXTURES = {
    "MixtralForCausalLM": "llama", "Qwen2MoeForCausalLM": "qwen2moe", "Qwen3MoeForCausalLM": "qwen3moe", "OlmoeForCausalLM": "olmoe",
    "GraniteMoeForCausalLM": "granitemoe", "GraniteMoeSharedForCausalLM": "granitemoe", "GptOssForCausalLM": "gpt-oss",
    "Glm4MoeForCausalLM": "glm4moe", "Dots1ForCausalLM": "dots1", "Ernie4_5_MoeForCausalLM": "ernie4_5-moe",
    **dict.fromkeys(("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM"), "deepseek2"),
    "GlmMoeDsaForCausalLM": "glm-dsa",
    "HunYuanMoEV1ForCausalLM": "hunyuan-moe", "MiniMaxM2ForCausalLM": "minimax-m2", "Llama4ForCausalLM": "llama4",
    "PhimoeForCausalLM": "phimoe",
}  # fmt: skip
FIXED = {  # numbers that the format has no word for: it stands for these
    "gpt_oss": {"swiglu_limit": 7.0},
    "minicpm3": {"dim_model_base": 256},
    "llama4": {"attention_chunk_size": 8192, "floor_scale": 8192},
}
SIGMOID = {"glm4moe", "dots1", "minimax-m2"}
LATENT = ("deepseek2", "glm-dsa")


def first(c: Config, *keys: str) -> Any:
    return next((c[k] for k in keys if c.get(k) is not None), None)


def add_numbers(writer: gguf.GGUFWriter, name: str, c: Config) -> None:
    """What a converter writes of experts, if there are any."""
    count = first(c, "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    if not count:
        return
    writer.add_expert_count(count)
    writer.add_expert_used_count(first(c, "num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"))
    writer.add_expert_feed_forward_length(first(c, "moe_intermediate_size", "intermediate_size"))
    if name in SIGMOID:
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if name in ("glm4moe", "dots1"):
        writer.add_leading_dense_block_count(c["first_k_dense_replace"])
        writer.add_expert_weights_scale(c["routed_scaling_factor"])
        writer.add_expert_weights_norm(c["norm_topk_prob"])
    if name in LATENT:
        latent(writer, c)
    if name == "glm4moe":
        writer.add_nextn_predict_layers(0)
    if name == "ernie4_5-moe":
        writer.add_leading_dense_block_count(c["moe_layer_start_index"])
        writer.add_interleave_moe_layer_step(c["moe_layer_interval"])
    if name == "llama4":
        writer.add_interleave_moe_layer_step(c["interleave_moe_layer_step"])
    if shared := first(c, "shared_intermediate_size", "shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(shared)
    if name == "granitemoe":
        add_multipliers(writer, c)


def add_multipliers(writer: gguf.GGUFWriter, c: Config) -> None:
    """Those of Granite."""
    writer.add_attention_scale(c["attention_multiplier"])
    writer.add_embedding_scale(c["embedding_multiplier"])
    writer.add_residual_scale(c["residual_multiplier"])
    writer.add_logit_scale(c["logits_scaling"])


def latent(writer: gguf.GGUFWriter, c: Config) -> None:
    """The widths of latent attention, and how experts are chosen."""
    sigmoid = "topk_method" not in c
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    writer.add_leading_dense_block_count(c.get("first_k_dense_replace", 1))
    writer.add_expert_shared_count(c["n_shared_experts"])
    writer.add_expert_weights_scale(c["routed_scaling_factor"])
    writer.add_expert_weights_norm(c["norm_topk_prob"])
    writer.add_expert_group_count(c["n_group"])
    writer.add_expert_group_used_count(c["topk_group"])
    if c["q_lora_rank"]:
        writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])
    writer.add_key_length_mla(c["qk_nope_head_dim"] + c["qk_rope_head_dim"])
    writer.add_value_length_mla(c["v_head_dim"])
    if "index_topk" in c:
        writer.add_indexer_head_count(c["index_n_heads"])
        writer.add_indexer_key_length(c["index_head_dim"])
        writer.add_indexer_top_k(c["index_topk"])
    if all_dimensions := c["rope_parameters"].get("mscale_all_dim"):
        writer.add_rope_scaling_yarn_log_mul(0.1 * all_dimensions)


def expanded(weights: Arrays, c: Config) -> Arrays:
    """What expands keys and values, by heads: keys with their axes turned."""
    out: Arrays = {}
    for old, value in weights.items():
        if "kv_b_proj" not in old:
            out[old] = value
            continue
        heads = value.reshape(c["num_attention_heads"], -1, c["kv_lora_rank"])
        keys, values = np.split(heads, [c["qk_nope_head_dim"]], 1)
        out[old.replace("kv_b", "k_b")], out[old.replace("kv_b", "v_b")] = keys.swapaxes(1, 2), values
    return out


def changed(weights: Arrays, name: str) -> Arrays:
    """Experts of one matrix as one tensor with three axes, fused ones taken apart, biases and vectors as the format calls them."""
    out: Arrays = {}
    stacks: dict[str, list[tuple[int, np.ndarray]]] = {}
    shared = "_shexp" if any("experts" in n or "sparse_moe" in n for n in weights) else ""  # alone, it is no expert
    for old, value in weights.items():
        if match := re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+\.weight)", old):
            stacks.setdefault(f"{match[1]}.{match[3]}", []).append((int(match[2]), value))
            continue
        for new, part in _apart(old, value, name, shared):
            out[new] = part
    return out | {n: np.stack([a for _, a in sorted(s, key=lambda pair: pair[0])]) for n, s in stacks.items()}


def _apart(old: str, value: np.ndarray, name: str, shared: str) -> list[tuple[str, np.ndarray]]:
    """The tensors that one becomes."""
    block, stacked = f"blk.{_layer(old)}.", ".experts." in old
    if name in ("gpt-oss", "llama4") and stacked:
        return [(f"{block}{n}", a) for n, a in _turned(old, value, name)]
    if old.endswith("input_linear.weight"):
        kind = "_exps" if "block_sparse_moe" in old else shared
        return [(f"{block}ffn_{n}{kind}.weight", a) for n, a in zip(("gate", "up"), np.split(value, 2, -2), strict=True)]
    if old.endswith("shared_mlp.output_linear.weight"):
        return [(f"{block}ffn_down{shared}.weight", value)]
    if old.endswith("e_score_correction_bias"):
        return [(f"{block}exp_probs_b.bias", value.reshape(-1))]
    if old.endswith("shared_expert_gate.weight"):
        return [(old, value.reshape(-1))]
    if name == "qwen2moe" and (match := re.search(r"\.mlp\.(gate|up|down)_proj", old)):
        return [(f"{block}ffn_{match[1]}.weight", value)]  # a dense layer, which the package has no name for here
    if old.endswith("router.scale"):
        return [(f"{block}ffn_gate_inp.scale", value)]
    if old.endswith("router.per_expert_scale"):
        return [(f"{block}ffn_down_exps.scale", value)]
    bare = old.endswith("sinks") or (stacked and not old.endswith(".weight"))
    return [(f"{old}.weight" if bare else old, value)]


def _layer(old: str) -> str:
    match = re.search(r"layers\.(\d+)", old)
    return match[1] if match else ""


def _turned(old: str, value: np.ndarray, name: str) -> list[tuple[str, np.ndarray]]:
    """Stacks that are stored with the input axis first; gate and up one behind the other, or by turns."""
    bias = old.endswith("_bias")
    value, end = (value, "bias") if bias else (value.swapaxes(1, 2), "weight")
    if "down_proj" in old:
        return [(f"ffn_down_exps.{end}", value)]
    parts = (value[:, 0::2], value[:, 1::2]) if name == "gpt-oss" else np.split(value, 2, 1)
    return [(f"ffn_{n}_exps.{end}", a) for n, a in zip(("gate", "up"), parts, strict=True)]
