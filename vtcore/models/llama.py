"""Llama: RMSNorm before, rotary grouped-query attention, gated SiLU. The forward that others differ from."""

from typing import ClassVar, cast

from vtcore.models.decoder import Array, Decoder, Layer, Names, Param, Step, architecture, flat, heads
from vtcore.models.fields import Json
from vtcore.models.registry import ARCHITECTURES, find
from vtcore.ops import add, rms_norm


@architecture("LlamaForCausalLM", "InternLM3ForCausalLM", "YiForCausalLM", gguf=("llama",))
class Llama(Decoder):
    """Each method is one part of the block; a variant overrides the part in which it differs."""

    defaults: ClassVar[Json] = {"rope_theta": 10000.0, "rms_norm_eps": 1e-6, "use_sliding_window": False}
    names: ClassVar[Names] = {
        **{n: f"self_attn.{n}" for n in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")},
        **{n: f"mlp.{n}" for n in ("gate_proj", "up_proj", "down_proj")},
    }

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        experts = cls is Llama and raw.get("num_experts")  # what GGUF calls llama may be a Mixtral
        return cast("type[Decoder]", find(["MixtralForCausalLM"], ARCHITECTURES)) if experts else cls

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = add(x, self.attend(w, self.norm(x, w.input_layernorm), step))
        return add(x, self.mlp(w, self.norm(x, w.post_attention_layernorm), step))

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        q, k, v = self.project(w, x)
        q, k = self.rotate(w, q, step), self.rotate(w, k, step)
        return self.output(w, x, self.attention(w, q, k, v, step))

    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        """Queries, keys and values, [T, heads, head_dim] each."""
        d = w.config.head_dim
        return heads(w.q_proj(x), d), heads(w.k_proj(x), d), heads(w.v_proj(x), d)

    def output(self, w: Layer, x: Array, out: Array) -> Array:
        """What attention found, [T, heads, head_dim], back into the residual's space."""
        return w.o_proj(flat(out))

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        return w.down_proj(self.gate(w.gate_proj(x), w.up_proj(x)))

    def gate(self, gate: Array, up: Array) -> Array:
        """act(gate) * up."""
        return self.acts[self.config.act](gate, up)

    def norm(self, x: Array, p: Param) -> Array:
        return rms_norm(x, p.weight, self.config.eps)
