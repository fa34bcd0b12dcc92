"""Gemma 4: Gemma 2 with plain norms, no score scale, values normalised, shared caches, an embedding for each layer (E2B, E4B), a scalar on
each layer's output; layers that see all have wider heads, and (31B) keys as values; experts beside the MLP (26B A4B)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, Stored, StoredExperts, Values, architecture, heads
from vtcore.models.fields import Json
from vtcore.models.fused import GATE, UP
from vtcore.models.mixture import Expert
from vtcore.models.per_layer import PerLayer
from vtcore.models.shared_kv import SharedKV
from vtcore.ops import add, embedding, mul, rms_norm, route, scale


@architecture("Gemma4ForCausalLM", gguf=("gemma4",))
class Gemma4(PerLayer, SharedKV):
    names: ClassVar[Names] = SharedKV.names | {"layer_scalar": Stored("layer_scalar", bare=True)}
    only: ClassVar[Json] = {"enable_moe_block": False, "use_bidirectional_attention": "vision"}
    defaults: ClassVar[Json] = SharedKV.defaults | {
        "sliding_window_pattern": 6, "hidden_size_per_layer_input": 256, "attention_k_eq_v": False,
    }  # fmt: skip

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        return Gemma4Mixture if raw.get("enable_moe_block") else cls

    def layer_config(self, index: int) -> ModelConfig:
        c, rest = super().layer_config(index), self.config.rest
        if c.window:
            return c
        few = rest.get("num_global_key_value_heads") if c.attention_k_eq_v else None
        wide: Json = {"head_dim": rest.get("global_head_dim") or c.head_dim, "kv_heads": few or c.kv_heads}
        return replace(c, **wide | self.config.overrides.get(index, {}))

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        return mul(super().layer(w, x, step), w.layer_scalar)

    def keys_values(self, w: Layer, x: Array) -> tuple[Array, Array]:
        c = w.config
        if not c.attention_k_eq_v or c.window:
            return super().keys_values(w, x)
        k = heads(w.k_proj(x), c.head_dim)
        return self.norm(k, w.k_norm), rms_norm(k, None, c.eps)


class Gemma4Mixture(Expert, Gemma4):
    """26B A4B: experts beside the MLP, each with norms of its own; they and the router read the residual before the MLP's norm."""

    only: ClassVar[Json] = {"use_bidirectional_attention": "vision", "hidden_size_per_layer_input": 0}
    words: ClassVar[Mapping[str, str]] = {"top_k_experts": "num_experts_per_tok"}
    defaults: ClassVar[Json] = Gemma4.defaults | {"hidden_size_per_layer_input": 0}
    names: ClassVar[Names] = Gemma4.names | {
        "router": "router.proj",
        "router_scale": Stored("router.scale", bare=True),
        "expert_scale": Stored("router.per_expert_scale", Values(lambda a, c: a.reshape(-1, 1)), bare=True),
        "experts_gate": StoredExperts("experts.gate_up_proj", GATE),
        "experts_up": StoredExperts("experts.gate_up_proj", UP),
        "experts_down": StoredExperts("experts.down_proj"),
    }

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = add(x, self.norm(self.attend(w, self.norm(x, w.input_layernorm), step), w.post_attention_layernorm))
        dense = self.norm(self.mlp(w, self.norm(x, w.pre_feedforward_layernorm), step), w.post_feedforward_layernorm_1)
        routed = self.experts(w, self.norm(x, w.pre_feedforward_layernorm_2), *self.route(w, x))
        both = add(dense, self.norm(routed, w.post_feedforward_layernorm_2))
        return mul(add(x, self.norm(both, w.post_feedforward_layernorm)), w.layer_scalar)

    def route(self, w: Layer, x: Array) -> tuple[Array, Array]:
        """Weights and numbers of each token's experts, [T, k]."""
        c = w.config
        h = scale(mul(rms_norm(x, None, c.eps), w.router_scale), c.hidden**-0.5)
        weights, ids = route(w.router(h), int(c.num_experts_per_tok))
        return mul(weights, embedding(w.expert_scale, ids).reshape(*ids.shape)), ids
