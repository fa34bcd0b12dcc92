"""Gemma 4: Gemma 2 with plain norms, no score scale, values normalised, shared caches, an embedding for each layer (E2B, E4B), a scalar on
each layer's output; layers that see all have wider heads, and (31B) keys as values."""

from dataclasses import replace
from typing import ClassVar

from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, Stored, architecture, heads
from vtcore.models.fields import Json
from vtcore.models.gemma2 import Gemma2
from vtcore.models.llama import Llama
from vtcore.models.per_layer import PerLayer
from vtcore.models.shared_kv import SharedKV
from vtcore.ops import mul, rms_norm


@architecture("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", gguf=("gemma4",))
class Gemma4(SharedKV, PerLayer, Gemma2):
    names: ClassVar[Names] = Llama.names | {"layer_scalar": Stored("layer_scalar", bare=True)}
    only: ClassVar[Json] = {"enable_moe_block": False, "use_bidirectional_attention": "vision"}
    defaults: ClassVar[Json] = {
        "attention_multiplier": 1.0, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
        "head_dim": 256, "sliding_window": 512, "sliding_window_pattern": 6, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 256,
        "attention_k_eq_v": False,
    }  # fmt: skip

    def layer_config(self, index: int) -> ModelConfig:
        c, rest = super().layer_config(index), self.config.rest
        if c.window:
            return c
        few = rest.get("num_global_key_value_heads") if c.attention_k_eq_v else None
        wide: Json = {"head_dim": rest.get("global_head_dim") or c.head_dim, "kv_heads": few or c.kv_heads}
        return replace(c, **wide | self.config.overrides.get(index, {}))

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        return mul(super().layer(w, x, step), w.layer_scalar)

    def queries(self, w: Layer, x: Array) -> Array:
        return self.norm(heads(w.q_proj(x), w.config.head_dim), w.q_norm)

    def keys_values(self, w: Layer, x: Array) -> tuple[Array, Array]:
        c = w.config
        k = heads(w.k_proj(x), c.head_dim)
        v = k if c.attention_k_eq_v and not c.window else heads(w.v_proj(x), c.head_dim)
        return self.norm(k, w.k_norm), rms_norm(v, None, c.eps)
