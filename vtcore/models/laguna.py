"""Laguna: Qwen 3, with a softplus gate on each head's output (heads differ by layer), and experts chosen by sigmoid and bias beside a
shared one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from vtcore.models.decoder import Array, Layer, ModelConfig, Names, architecture, flat, heads
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import ROUTED, ROUTING, Mixture, shared
from vtcore.models.qwen3 import Qwen3
from vtcore.ops import mul, softplus


@architecture("LagunaForCausalLM")
class Laguna(Mixture, Qwen3):
    score: ClassVar[str] = "sigmoid"
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, "moe_routed_scaling_factor": "routed_scaling_factor"}
    only: ClassVar[Json] = {"moe_router_logit_softcapping": 0.0, "moe_apply_router_weight_on_input": False}
    defaults: ClassVar[Json] = Qwen3.defaults | ROUTING | {"use_sliding_window": True, "max_window_layers": None}
    names: ClassVar[Names] = (
        Llama.names | ROUTED | shared("mlp.shared_expert") | {"router_bias": "mlp.experts.e_score_correction_bias"}
        | {"g_proj": "self_attn.g_proj"}
    )  # fmt: skip

    def layer_config(self, index: int) -> ModelConfig:
        c, key = super().layer_config(index), "num_attention_heads_per_layer"
        return replace(c, heads=int(Fields(c.rest).numbers(key, c.layers)[index])) if c.rest.get(key) is not None else c

    def output(self, w: Layer, x: Array, out: Array) -> Array:
        gate = softplus(w.g_proj(x))  # one a head, or one a channel
        return w.o_proj(flat(mul(out, heads(gate, gate.shape[1] // out.shape[1]))))
