"""Checkpoints that transformers doesn't write: architectures that it has under another name only, and the names of hub checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from goldens.recipe import GROUPED, HIDDEN, Array, Disguise
from vtcore.conformance.draw import Drawn

HEADS, KV_HEADS = GROUPED["num_attention_heads"], GROUPED["num_key_value_heads"]
WIDTH = HIDDEN // HEADS
INTERNLM2_NAMES = (
    ("embed_tokens", "tok_embeddings"), ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"),
    ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"), ("input_layernorm", "attention_norm"),
    ("post_attention_layernorm", "ffn_norm"), ("lm_head", "output"),
)  # fmt: skip


def _swap(name: str, pairs: tuple[tuple[str, str], ...]) -> str:
    for old, new in pairs:
        name = name.replace(old, new)
    return name


def _internlm2_tensors(written: Mapping[str, Drawn]) -> list[Drawn]:
    """Queries, keys and values in one tensor: for each key head its queries, the key, the value."""
    out = []
    for name, d in written.items():
        if "self_attn.q_proj" in name:
            packed = name.replace("self_attn.q_proj", "attention.wqkv")
            out.append(replace(d, name=packed, shape=((HEADS + 2 * KV_HEADS) * WIDTH, HIDDEN)))
        elif not re.search(r"self_attn\.[kv]_proj", name):
            out.append(replace(d, name=_swap(name, INTERNLM2_NAMES)))
    return out


def _internlm2_weights(stored: dict[str, Array]) -> dict[str, Array]:
    back, out = tuple((new, old) for old, new in INTERNLM2_NAMES), {}
    for name, a in stored.items():
        if "attention.wqkv" not in name:
            out[_swap(name, back)] = a
            continue
        grouped = a.reshape(KV_HEADS, HEADS // KV_HEADS + 2, WIDTH, HIDDEN)
        for part, rows in (("q", grouped[:, :-2]), ("k", grouped[:, -2]), ("v", grouped[:, -1])):
            out[name.replace("attention.wqkv", f"self_attn.{part}_proj")] = np.ascontiguousarray(rows.reshape(-1, HIDDEN))
    return out


def _before_5(config: dict[str, Any], drop: tuple[str, ...], **new: Any) -> dict[str, Any]:
    """A config.json from before transformers 5, as its authors' own code reads it."""
    kept = {n: v for n, v in config.items() if n not in (*drop, "rope_parameters", "dtype")}
    return {**kept, "rope_theta": config["rope_parameters"]["rope_theta"], "rope_scaling": None, "torch_dtype": config["dtype"], **new}


def _internlm2_config(config: dict[str, Any]) -> dict[str, Any]:
    drop = ("head_dim", "attention_bias", "mlp_bias", "pretraining_tp")
    return _before_5(config, drop, architectures=["InternLM2ForCausalLM"], model_type="internlm2", bias=False)


def _minicpm_config(config: dict[str, Any]) -> dict[str, Any]:
    drop = ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling", "attention_bias", "mlp_bias")
    numbers = {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16}
    return _before_5(config, drop, architectures=["MiniCPMForCausalLM"], model_type="minicpm", **numbers)


def renamed(rename: Callable[[str], str]) -> Disguise:
    """The same tensors under the names that the hub's checkpoints have; transformers reads them as they are."""

    def tensors(written: Mapping[str, Drawn]) -> list[Drawn]:
        return [replace(d, name=rename(n)) for n, d in written.items()]

    return Disguise(tensors, lambda stored: stored)


def _kimi_linear(name: str) -> str:
    return re.sub(r"block_sparse_moe\.(gate_proj|up_proj|down_proj)\.", r"mlp.\1.", name)


def _deepseek_v4(name: str) -> str:
    name = re.sub(r"\.attn\.norm\.", ".attn.kv_norm.", name.removeprefix("model."))
    whole = {"embed_tokens.weight": "embed.weight"} | {f"hc_head.hc_{p}": f"hc_head_{p}" for p in ("fn", "base", "scale")}
    return whole.get(name, name)


def _same(written: Mapping[str, Drawn]) -> list[Drawn]:
    return list(written.values())


def says(**fields: Any) -> Disguise:
    """config.json says something else than what the oracle was built from, which must come to the same."""
    return Disguise(_same, lambda stored: stored, lambda config: {**config, **fields})


INTERNLM2 = Disguise(_internlm2_tensors, _internlm2_weights, _internlm2_config)
MINICPM = Disguise(_same, lambda stored: stored, _minicpm_config)
KIMI_LINEAR, DEEPSEEK_V4 = renamed(_kimi_linear), renamed(_deepseek_v4)
