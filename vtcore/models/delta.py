"""Gated delta nets: a layer that keeps a matrix a head instead of keys and values."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.kvcache.cache import Spec, State
from vtcore.models.activations import SILU
from vtcore.models.decoder import Array, Layer, Names, Step, Stored, flat, heads
from vtcore.models.llama import Llama
from vtcore.models.selective import NEGATIVE_EXP, TAPS
from vtcore.op import Op
from vtcore.ops import causal_conv, gated_delta, l2_norm, mul, rms_norm, scale, sigmoid, silu_mul, time_step


class DeltaNet(Llama):
    """`recur` of Qwen 3 Next and 3.5: one decay a head."""

    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "linear_attention"})
    acts: ClassVar[Mapping[str, Op]] = SILU
    delta_names: ClassVar[Names] = {
        **{n: f"linear_attn.{n}" for n in ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "dt_bias", "out_proj")},
        "conv1d": Stored("linear_attn.conv1d", TAPS),
        "rate": Stored("linear_attn.A_log", NEGATIVE_EXP),
        "delta_norm": "linear_attn.norm",
    }

    def caches(self, w: Layer) -> dict[str, Spec]:
        c = w.config
        if c.kind != "linear_attention":
            return super().caches(w)
        many, k, v = c.linear_num_value_heads, c.linear_key_head_dim, c.linear_value_head_dim
        channels = 2 * c.linear_num_key_heads * k + many * v
        return {"delta": State({"conv": (c.linear_conv_kernel_dim - 1, channels), "matrix": (many, k, v)})}

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        return self.recur(w, x, step) if w.config.kind == "linear_attention" else super().attend(w, x, step)

    def recur(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        c, state = w.config, step.view(w, "delta")
        qkv = causal_conv(w.in_proj_qkv(x), w.conv1d.weight, w.conv1d.bias, state["conv"], *step.walk(state))
        edge = c.linear_num_key_heads * c.linear_key_head_dim
        q, k = (l2_norm(heads(qkv[:, i * edge : (i + 1) * edge], c.linear_key_head_dim)) for i in (0, 1))
        v = heads(qkv[:, 2 * edge :], c.linear_value_head_dim)
        decay, beta = mul(time_step(w.in_proj_a(x), w.dt_bias), w.rate), sigmoid(w.in_proj_b(x))
        decay = decay.reshape(*decay.shape, 1)
        turns = bool(c.rest.get("linear_heads_in_turns"))  # GGUF's order of the heads of v
        out = gated_delta(scale(q, c.linear_key_head_dim**-0.5), k, v, decay, beta, state["matrix"], *step.walk(state), turns=turns)
        return w.out_proj(flat(silu_mul(heads(w.in_proj_z(x), c.linear_value_head_dim), rms_norm(out, w.delta_norm.weight, c.eps))))
