"""Kimi Linear: DeepSeek 3 without a rope, in which three of four layers are delta nets that forget by channel instead of attending."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vtcore.kvcache.cache import Spec, State
from vtcore.models.activations import SILU
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, Stored, Values, architecture, flat, heads
from vtcore.models.deepseek import DeepseekV3
from vtcore.models.fields import Fields, Json
from vtcore.models.mixture import ROUTING, each, shared
from vtcore.models.selective import TAPS
from vtcore.op import Op
from vtcore.ops import causal_conv, gated_delta, l2_norm, mul, rms_norm, scale, sigmoid, sigmoid_mul, time_step

RATE = Values(lambda a_log, c: -np.exp(a_log.reshape(-1, 1)))
LINEAR = {"num_heads": "linear_num_heads", "head_dim": "linear_head_dim", "short_conv_kernel_size": "linear_conv_kernel_dim"}


@architecture("KimiLinearForCausalLM", gguf=("kimi-linear",))
class KimiLinear(DeepseekV3):
    defaults: ClassVar[Json] = ROUTING | {"rms_norm_eps": 1e-5}
    only: ClassVar[Json] = {"moe_router_activation_func": "sigmoid", "mla_use_nope": True, "moe_layer_freq": 1}
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "linear_attention"})
    acts: ClassVar[Mapping[str, Op]] = SILU
    words: ClassVar[Mapping[str, str]] = {
        **DeepseekV3.words, "num_experts_per_token": "num_experts_per_tok", "moe_renormalize": "norm_topk_prob",
        "num_expert_group": "n_group", "model_max_length": "max_position_embeddings",
    }  # fmt: skip
    names: ClassVar[Names] = (
        DeepseekV3.names
        | {f"conv_{n}": Stored(f"self_attn.{n}_conv1d", TAPS) for n in "qkv"}
        | {n: f"self_attn.{n}" for n in ("f_a_proj", "f_b_proj", "g_a_proj", "g_b_proj", "b_proj", "o_norm", "dt_bias")}
        | {"rate": Stored("self_attn.A_log", RATE), "router": "block_sparse_moe.gate"}
        | {"router_bias": "block_sparse_moe.gate.e_score_correction_bias", **shared("block_sparse_moe.shared_experts")}
        | each("block_sparse_moe.experts.{}", ("w1", "w3", "w2"))
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        """The first files keep the numbers of delta nets in an object, where layers count from 1."""
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        own = Fields(f.mapping("linear_attn_config"), f"{f.file}: linear_attn_config")
        made: Json = {ours: own.integer(key) for key, ours in LINEAR.items() if own.has(key)}
        if (delta := own.indices("kda_layers")) is not None:
            layers = f.integer("num_hidden_layers", high=1024)
            made["layer_types"] = ["linear_attention" if i + 1 in delta else "full_attention" for i in range(layers)]
        still: Json = {"rope_theta": None, "rope_parameters": None, "rope_scaling": None}
        return super().read_config(raw | made | still, max_model_len, **source)

    def caches(self, w: Layer) -> dict[str, Spec]:
        c = w.config
        if c.kind != "linear_attention":
            return super().caches(w)
        kept = c.linear_conv_kernel_dim - 1, c.linear_num_heads * c.linear_head_dim
        return {"delta": State({**dict.fromkeys("qkv", kept), "matrix": (c.linear_num_heads, c.linear_head_dim, c.linear_head_dim)})}

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        return self.recur(w, x, step) if w.config.kind == "linear_attention" else super().attend(w, x, step)

    def recur(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        d, state = w.config.linear_head_dim, step.view(w, "delta")
        walk, parts = step.walk(state), (("q", w.q_proj, w.conv_q), ("k", w.k_proj, w.conv_k), ("v", w.v_proj, w.conv_v))
        q, k, v = (heads(causal_conv(project(x), conv.weight, conv.bias, state[n], *walk), d) for n, project, conv in parts)
        beta, decay = sigmoid(w.b_proj(x)), self.decay(w, heads(w.f_b_proj(w.f_a_proj(x)), d))
        out = gated_delta(scale(l2_norm(q), d**-0.5), l2_norm(k), v, decay, beta, state["matrix"], *walk)
        return w.o_proj(flat(sigmoid_mul(rms_norm(out, w.o_norm.weight, w.config.eps), heads(self.opening(w, x), d))))

    def decay(self, w: Layer, x: Array) -> Array:
        """How much each channel of a head forgets, as a logarithm: [T, heads, head_dim]."""
        return mul(heads(time_step(flat(x), w.dt_bias), x.shape[2]), w.rate)

    def opening(self, w: Layer, x: Array) -> Array:
        """How much of what a delta net found passes, before the sigmoid."""
        return w.g_b_proj(w.g_a_proj(x))
