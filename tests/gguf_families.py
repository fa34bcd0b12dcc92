"""The numbers and value changes of llama.cpp's converter for the families beside Llama's, for `gguf_converter`. Written from what the
converter does, without the reader's tables."""

import math
from collections.abc import Iterator
from typing import Any

import gguf
import numpy as np

from tests import gguf_gemma, gguf_mixtures
from tests.gguf_mixtures import MIXTURES
from vtcore.conformance.golden import Golden

Config = dict[str, Any]
FAMILIES = {
    "InternLM2ForCausalLM": "internlm2", "PhiForCausalLM": "phi2", "StableLmForCausalLM": "stablelm", "MiniCPMForCausalLM": "minicpm",
    "OlmoForCausalLM": "olmo", "Olmo2ForCausalLM": "olmo2", "Olmo3ForCausalLM": "olmo2", "GlmForCausalLM": "chatglm",
    "Glm4ForCausalLM": "glm4", "CohereForCausalLM": "command-r", "Cohere2ForCausalLM": "cohere2", "GPT2LMHeadModel": "gpt2",
    "GPTNeoXForCausalLM": "gptneox", "Starcoder2ForCausalLM": "starcoder2", "Exaone4ForCausalLM": "exaone4",
    "SeedOssForCausalLM": "seed_oss", "Ernie4_5ForCausalLM": "ernie4_5", "HunYuanDenseV1ForCausalLM": "hunyuan-dense",
    "NemotronForCausalLM": "nemotron", "ApertusForCausalLM": "apertus", "ArceeForCausalLM": "arcee",
    "Ministral3ForCausalLM": "mistral3", "BloomForCausalLM": "bloom", "FalconForCausalLM": "falcon", "MptForCausalLM": "mpt",
    "Gemma4ForCausalLM": "gemma4", "Gemma3nForCausalLM": "gemma3n", "MiniCPM3ForCausalLM": "minicpm3", "GPTJForCausalLM": "gptj",
    **MIXTURES,
}  # fmt: skip
PAIRED = {"llama", "granitemoe", "internlm2", "minicpm", "olmo", "arcee", "mistral3"}  # q and k are permuted
FUSED = {"gptneox", "bloom", "falcon"}  # q, k and v, head by head, become all q, all k, all v
WINDOWED = {"gpt-oss", "olmo2", "cohere2", "exaone4", "starcoder2", "gemma4", "gemma3n"}
EPS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")


def said(c: Config, *keys: str, default: Any = None) -> Any:
    """The first of some keys that a config has."""
    return next((c[k] for k in keys if c.get(k) is not None), default)


class Shape:
    """Widths, under whatever names."""

    def __init__(self, c: Config) -> None:
        self.hidden = said(c, "hidden_size", "n_embd", "d_model")
        self.layers = said(c, "num_hidden_layers", "n_layer", "n_layers")
        self.heads = said(c, "num_attention_heads", "n_head", "n_heads")
        self.kv_heads = said(c, "num_key_value_heads", "num_kv_heads", default=self.heads)
        if c["model_type"] == "falcon" and not c["new_decoder_architecture"] and c["multi_query"]:
            self.kv_heads = 1
        self.head = said(c, "qk_head_dim", "head_dim", default=self.hidden // self.heads)


def add_numbers(writer: gguf.GGUFWriter, name: str, c: Config) -> None:
    s = Shape(c)
    writer.add_context_length(said(c, "max_position_embeddings", "n_positions", "max_seq_len", default=2048))
    writer.add_embedding_length(s.hidden)
    writer.add_block_count(s.layers)
    writer.add_feed_forward_length(said(c, "intermediate_size", "n_inner", "ffn_hidden_size", default=4 * s.hidden))
    writer.add_head_count(s.heads)
    writer.add_head_count_kv(1 if name in gguf_mixtures.LATENT else s.kv_heads)
    eps = said(c, *EPS, default=1e-5)
    (writer.add_layer_norm_rms_eps if "rms_norm_eps" in c else writer.add_layer_norm_eps)(eps)
    latent = c["kv_lora_rank"] if name in gguf_mixtures.LATENT else 0
    writer.add_key_length(latent + c["qk_rope_head_dim"] if latent else s.head)
    writer.add_value_length(latent or s.head)
    add_rope(writer, name, c, s)
    if name in WINDOWED and c.get("sliding_window"):
        writer.add_sliding_window(c["sliding_window"])
    if name in {"olmo2", "exaone4"} and c.get("sliding_window"):
        writer.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])
    SPECIAL.get(name, lambda writer, c, s: None)(writer, c, s)
    gguf_mixtures.add_numbers(writer, name, c)


def add_rope(writer: gguf.GGUFWriter, name: str, c: Config, s: Shape) -> None:
    if name in ("gpt2", "bloom", "mpt"):
        return
    p = c.get("rope_parameters") or {"rope_type": "default", "rope_theta": c.get("rope_theta", 1e4)}
    p = p.get("full_attention", p)
    theta = p["rope_theta"]
    if p["rope_type"] == "dynamic":  # HunYuan's alpha becomes a base
        theta *= p["alpha"] ** (s.head / (s.head - 2))
    writer.add_rope_freq_base(theta)
    partial = 1.0 if p["rope_type"] == "proportional" else p.get("partial_rotary_factor", 1.0)
    writer.add_rope_dimension_count(c.get("rotary_dim") or int(partial * c.get("qk_rope_head_dim", s.head)))
    if p["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(p["factor"])
        writer.add_rope_scaling_orig_ctx_len(p["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(p["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(p["beta_slow"])


def minicpm(writer: gguf.GGUFWriter, c: Config, s: Shape) -> None:
    writer.add_embedding_scale(c["scale_emb"])
    writer.add_residual_scale(c["scale_depth"] / s.layers**0.5)
    writer.add_logit_scale(c["hidden_size"] / c["dim_model_base"])


def minicpm3(writer: gguf.GGUFWriter, c: Config, s: Shape) -> None:
    writer.add_q_lora_rank(c["q_lora_rank"])
    writer.add_kv_lora_rank(c["kv_lora_rank"])


def mistral3(writer: gguf.GGUFWriter, c: Config, s: Shape) -> None:
    writer.add_attn_temperature_scale(c["rope_parameters"]["llama_4_scaling_beta"])
    writer.add_rope_scaling_yarn_log_mul(c["rope_parameters"]["mscale_all_dim"])


def mpt(writer: gguf.GGUFWriter, c: Config, s: Shape) -> None:
    writer.add_max_alibi_bias(c["attn_config"]["alibi_bias_max"])
    if c["attn_config"]["clip_qkv"] is not None:
        writer.add_clamp_kqv(c["attn_config"]["clip_qkv"])


SPECIAL = {
    "minicpm": minicpm,
    "minicpm3": minicpm3,
    "mistral3": mistral3,
    "mpt": mpt,
    "gemma4": gguf_gemma.gemma4,
    "gemma3n": gguf_gemma.gemma3n,
    "stablelm": lambda writer, c, s: writer.add_parallel_residual(c["use_parallel_residual"]),
    "gptneox": lambda writer, c, s: writer.add_parallel_residual(c["use_parallel_residual"]),
    "olmo": lambda writer, c, s: writer.add_clamp_kqv(c["clip_qkv"]),
    "command-r": lambda writer, c, s: writer.add_logit_scale(c["logit_scale"]),
    "cohere2": lambda writer, c, s: writer.add_logit_scale(c["logit_scale"]),
}


def tensors(writer: gguf.GGUFWriter, golden: Golden, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Tensors under the names of transformers, as the package's map knows them; what the file keeps as metadata is written there."""
    c, s = golden.config, Shape(golden.config)
    weights = gguf_mixtures.changed(golden.weights(), name)
    if name in gguf_mixtures.LATENT:
        weights = gguf_mixtures.expanded(weights, c)
    if name == "apertus":
        weights = xielu(writer, weights, s.layers)
    if name == "stablelm":
        weights = gathered(weights)
    if name == "gemma3n":
        weights = gguf_gemma.stacked(weights)
    if name == "bloom":
        weights = {n.removeprefix("transformer."): a for n, a in weights.items()}
    for old, value in weights.items():
        if "attention.wqkv" in old:
            for part, rows in zip("qkv", grouped(value, s), strict=True):
                yield old.replace("wqkv", f"w{part}"), paired(rows, s.heads if part == "q" else s.kv_heads) if part != "v" else rows
        elif name in PAIRED and ("q_proj" in old or "k_proj" in old):
            yield old, paired(value, s.heads if "q_proj" in old else s.kv_heads)
        elif name in FUSED and "query_key_value" in old:
            yield old, np.concatenate(grouped(value, s))
        elif name == "gpt2" and any(n in old for n in ("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            yield old, value.T
        elif name == "nemotron" and old.endswith("norm.weight"):
            yield old, value + 1
        else:
            yield old + (".weight" if old.endswith(gguf_gemma.BARE) else ""), value
    yield from divisors(c, s)


def grouped(value: np.ndarray, s: Shape) -> list[np.ndarray]:
    """Queries, keys and values of a matrix that has them by heads of keys."""
    each = value.reshape(s.kv_heads, s.heads // s.kv_heads + 2, s.head, *value.shape[1:])
    return [part.reshape(-1, *value.shape[1:]) for part in (each[:, :-2], each[:, -2], each[:, -1])]


def paired(value: np.ndarray, heads: int) -> np.ndarray:
    """Each head's halves as neighbours."""
    return value.reshape(heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def xielu(writer: gguf.GGUFWriter, weights: dict[str, np.ndarray], layers: int) -> dict[str, np.ndarray]:
    """The numbers of each layer's curve go into the metadata."""
    for part in ("alpha_p", "alpha_n", "beta", "eps"):
        each = [float(weights[f"model.layers.{i}.mlp.act_fn.{part}"].reshape(())) for i in range(layers)]
        getattr(writer, f"add_xielu_{part}")(each)
    return {n: a for n, a in weights.items() if "act_fn" not in n}


def gathered(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The norms of a layer's heads as one tensor."""
    out: dict[str, Any] = {}
    for name, a in weights.items():
        whole = name.partition(".norms.")[0] + ".weight" if ".norms." in name else name
        out[whole] = np.concatenate([out[whole], a[None]]) if whole in out else a[None] if ".norms." in name else a
    return out


def divisors(c: Config, s: Shape) -> Iterator[tuple[str, np.ndarray]]:
    """What frequencies are divided by: Llama 3's rope, and the part of Gemma 4's wide heads that doesn't turn."""
    p = c.get("rope_parameters") or {}
    if p.get("rope_type") == "longrope":
        for which in ("long", "short"):
            yield f"rope_factors_{which}.weight", np.array(p[f"{which}_factor"], np.float32)
    if p.get("rope_type") == "llama3":
        yield "rope_freqs.weight", llama3_divisors(c, p)
    full = p.get("full_attention", {})
    if full.get("rope_type") == "proportional":
        half = next(iter(c["per_layer_config"].values()))["head_dim"] // 2
        turning = int(half * full["partial_rotary_factor"])
        yield "rope_freqs.weight", np.array([1.0] * turning + [1e30] * (half - turning), np.float32)


def llama3_divisors(c: dict[str, Any], rope: dict[str, Any]) -> np.ndarray:
    """By how much each frequency of Llama 3 is divided."""
    head = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    out = []
    for i in range(0, head, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / head)
        if wavelength < original / rope["high_freq_factor"]:
            out.append(1.0)
        elif wavelength > original / rope["low_freq_factor"]:
            out.append(factor)
        else:
            smooth = (original / wavelength - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
            out.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(out, np.float32)
