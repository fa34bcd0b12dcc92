"""Tiny checkpoints on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 300, "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    "dtype": "float32",
}  # fmt: skip


def random_llama(directory: Path, seed: int = 0, **changes: object) -> Path:
    """Two layers, hidden 32, 4 heads over 2, vocabulary 300, float32, every weight drawn from N(0, 0.05) and every norm near 1."""
    directory.mkdir(parents=True, exist_ok=True)
    config = LLAMA | changes
    (directory / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(seed)
    tensors = {name: rng.normal(len(shape) == 1, 0.05, shape).astype(np.float32) for name, shape in _shapes(config).items()}
    save_file(tensors, directory / "model.safetensors")
    return directory


def _shapes(c: dict[str, object]) -> dict[str, tuple[int, ...]]:
    h, i, v = (int(str(c[n])) for n in ("hidden_size", "intermediate_size", "vocab_size"))
    q, kv = (int(str(c[n])) * int(str(c["head_dim"])) for n in ("num_attention_heads", "num_key_value_heads"))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (v, h), "model.norm.weight": (h,), "lm_head.weight": (v, h)}
    for layer in range(int(str(c["num_hidden_layers"]))):
        own: dict[str, tuple[int, ...]] = {f"self_attn.{n}_proj": (kv, h) for n in "kv"}
        own |= {"self_attn.q_proj": (q, h), "self_attn.o_proj": (h, q), "mlp.gate_proj": (i, h), "mlp.up_proj": (i, h)}
        own |= {"mlp.down_proj": (h, i), "input_layernorm": (h,), "post_attention_layernorm": (h,)}
        shapes |= {f"model.layers.{layer}.{n}.weight": s for n, s in own.items()}
    return shapes
