"""OLMo Hybrid: OLMo 2, in which most layers are gated delta nets, with norms before their parts and not after."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.kvcache.cache import Spec, State
from vtcore.models.activations import SILU
from vtcore.models.decoder import Array, Layer, Names, Step, Stored, architecture, flat, heads
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.olmo2 import Olmo2
from vtcore.models.selective import NEGATIVE_EXP, TAPS
from vtcore.op import Op
from vtcore.ops import add, causal_conv, concat, gated_delta, l2_norm, mul, rms_norm, scale, sigmoid, silu_mul, time_step

EPS = 1e-5  # of the norm inside, whatever config.json says of the others


@architecture("OlmoHybridForCausalLM")
class OlmoHybrid(Olmo2):
    defaults: ClassVar[Json] = {"rms_norm_eps": 1e-6, "linear_allow_neg_eigval": True}
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "linear_attention"})
    acts: ClassVar[Mapping[str, Op]] = SILU
    names: ClassVar[Names] = (
        Llama.names
        | {"input_layernorm": "attention_layer_norm", "post_attention_layernorm": "feedforward_layer_norm"}
        | {f"linear_{n}": f"linear_attn.{n}_proj" for n in "qkvabgo"}
        | {f"conv_{n}": Stored(f"linear_attn.{n}_conv1d", TAPS) for n in "qkv"}
        | {"dt_bias": "linear_attn.dt_bias", "rate": Stored("linear_attn.A_log", NEGATIVE_EXP), "delta_norm": "linear_attn.o_norm"}
    )

    def caches(self, w: Layer) -> dict[str, Spec]:
        c = w.config
        if c.kind != "linear_attention":
            return super().caches(w)
        many, few, depth, width = (
            getattr(c, f"linear_{n}") for n in ("num_value_heads", "num_key_heads", "key_head_dim", "value_head_dim")
        )
        channels = 2 * few * depth + many * width
        return {"delta": State({"conv": (c.linear_conv_kernel_dim - 1, channels), "matrix": (many, depth, width)})}

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        if w.config.kind != "linear_attention":
            return super().layer(w, x, step)
        x = add(x, self.recur(w, self.norm(x, w.input_layernorm), step))
        return add(x, self.mlp(w, self.norm(x, w.post_attention_layernorm), step))

    def recur(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        c, state = w.config, step.view(w, "delta")
        depth, width, walk = c.linear_key_head_dim, c.linear_value_head_dim, step.walk(state)
        edge = c.linear_num_key_heads * depth
        taps = concat(concat(w.conv_q.weight, w.conv_k.weight), w.conv_v.weight)  # in thirds, wherever the three parts end
        qkv = causal_conv(concat(concat(w.linear_q(x), w.linear_k(x)), w.linear_v(x)), taps, None, state["conv"], *walk)
        q, k, v = heads(qkv[:, :edge], depth), heads(qkv[:, edge : 2 * edge], depth), heads(qkv[:, 2 * edge :], width)
        decay, beta = mul(time_step(w.linear_a(x), w.dt_bias), w.rate), sigmoid(w.linear_b(x))
        beta = scale(beta, 2.0) if c.linear_allow_neg_eigval else beta
        out = gated_delta(scale(l2_norm(q), depth**-0.5), l2_norm(k), v, decay.reshape(*decay.shape, 1), beta, state["matrix"], *walk)
        return w.linear_o(flat(silu_mul(heads(w.linear_g(x), width), rms_norm(out, w.delta_norm.weight, EPS))))
