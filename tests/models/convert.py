"""A golden's checkpoint as llama.cpp's converter would write it. Shares no table with the reader."""

import math
import re

import numpy as np

from tests.writers import write_gguf

ARCHES = {
    "LlamaForCausalLM": "llama", "MistralForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3",
    "SmolLM3ForCausalLM": "smollm3", "Phi3ForCausalLM": "phi3", "GraniteForCausalLM": "granite", "GemmaForCausalLM": "gemma",
    "Gemma2ForCausalLM": "gemma2", "Gemma3ForCausalLM": "gemma3",
}  # fmt: skip
PERMUTED = {"llama", "smollm3", "granite"}
NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def name_of(name, arch):
    base, kind = name.rsplit(".", 1)
    if base in TOP:
        return f"{TOP[base]}.{kind}"
    layer, part = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", base).groups()
    after = {"post_attention_layernorm": "post_attention_norm" if arch in ("gemma2", "gemma3") else "ffn_norm"}
    return f"blk.{layer}.{(NAMES | after)[part]}.{kind}"


def permuted(a, heads):
    """Row 2i of a head is row i, row 2i + 1 is row i + half."""
    rows = a.reshape(heads, 2, -1, *a.shape[1:])
    return np.ascontiguousarray(np.swapaxes(rows, 1, 2)).reshape(a.shape)


def tensors_of(weights, config, arch):
    heads, kv = config["num_attention_heads"], config.get("num_key_value_heads") or config["num_attention_heads"]
    out = {}
    for name, a in weights.items():
        if arch in PERMUTED and ".q_proj." in name:
            a = permuted(a, heads)
        if arch in PERMUTED and ".k_proj." in name:
            a = permuted(a, kv)
        if arch.startswith("gemma") and "norm" in name:
            a = a + np.float32(1)
        out[name_of(name, arch)] = a
    return out


def rope_of(config):
    """One rope's parameters; of two, that of the layers that see all."""
    p = config["rope_parameters"]
    return p.get("full_attention", p)


def divisors(p, width):
    """What llama3 divides each frequency by."""
    out = []
    for i in range(0, width, 2):
        length = 2 * math.pi * p["rope_theta"] ** (i / width)
        low, high = p["low_freq_factor"], p["high_freq_factor"]
        smooth = (p["original_max_position_embeddings"] / length - low) / (high - low)
        out.append(1 / ((1 - min(max(smooth, 0), 1)) / p["factor"] + min(max(smooth, 0), 1)))
    return np.array(out, np.float32)


def scaling_of(p, config, arch, width):
    """Metadata and tensors of a rope's scaling."""
    kind, base = p["rope_type"], f"{arch}.rope.scaling."
    if kind == "llama3":
        return {}, {"rope_freqs.weight": divisors(p, width)}
    if kind == "longrope":
        original = p["original_max_position_embeddings"]
        ratio = config["max_position_embeddings"] / original
        meta = {base + "original_context_length": original, base + "attn_factor": math.sqrt(1 + math.log(ratio) / math.log(original))}
        return meta, {f"rope_factors_{n}.weight": np.array(p[f"{n}_factor"], np.float32) for n in ("long", "short")}
    if kind == "linear":
        return {base + "type": "linear", base + "factor": float(p["factor"])}, {}
    if kind == "yarn":
        meta = {base + "type": "yarn", base + "factor": float(p["factor"])}
        meta[base + "original_context_length"] = p.get("original_max_position_embeddings") or config["max_position_embeddings"]
        return meta | {base + f"yarn_{n}": float(p[n]) for n in ("beta_fast", "beta_slow") if p.get(n)}, {}
    if kind == "dynamic" and p.get("alpha"):
        return {base + "alpha": float(p["alpha"])}, {}
    return {}, {}


def metadata_of(config, arch):
    p, heads = rope_of(config), config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    keys = {
        "block_count": config["num_hidden_layers"], "embedding_length": config["hidden_size"],
        "context_length": config["max_position_embeddings"], "feed_forward_length": config["intermediate_size"],
        "attention.head_count": heads,
        "attention.head_count_kv": config.get("num_key_value_heads") or heads,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "attention.key_length": width, "attention.value_length": width, "rope.freq_base": float(p["rope_theta"]),
    }  # fmt: skip
    turned = int(width * p.get("partial_rotary_factor", 1.0))
    keys |= {} if arch.startswith("gemma") else {"rope.dimension_count": turned}
    windowed = config.get("sliding_window") and (arch in ("gemma2", "gemma3", "phi3") or config["model_type"] == "mistral")
    keys |= {"attention.sliding_window": config["sliding_window"]} if windowed else {}
    words = {
        "attn_logit_softcapping": "attn_logit_softcapping", "final_logit_softcapping": "final_logit_softcapping",
        "attention_multiplier": "attention.scale", "embedding_multiplier": "embedding_scale", "residual_multiplier": "residual_scale",
        "logits_scaling": "logit_scale",
    }  # fmt: skip
    keys |= {key: float(config[word]) for word, key in words.items() if config.get(word) is not None}
    extra, tensors = scaling_of(p, config, arch, turned)
    return {"general.architecture": arch} | {f"{arch}.{k}": v for k, v in keys.items()} | extra, tensors


def write(golden, path, quantise=None, **changes):
    """The file's path. `quantise(name, array)` may give a tensor's blocks; `changes` replace metadata."""
    config = golden.config
    arch = ARCHES[golden.architecture]
    metadata, more = metadata_of(config, arch)
    tensors = tensors_of(golden.weights(), config, arch) | more
    tensors = {n: (quantise(n, a) if quantise else None) or a for n, a in tensors.items()}
    return write_gguf(path, metadata | {k.replace("ARCH", arch): v for k, v in changes.items()}, tensors)
