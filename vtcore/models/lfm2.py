"""LFM 2: Qwen 3 in which most layers convolve the last three tokens, gated on both sides, instead of attending."""

from typing import ClassVar

from vtcore.kvcache.cache import Spec, State
from vtcore.models.decoder import Array, Decoder, Layer, Names, Step, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.qwen3 import Qwen3
from vtcore.models.selective import TAPS
from vtcore.ops import causal_conv, mul


@architecture("Lfm2ForCausalLM", gguf=("lfm2",))
class Lfm2(Qwen3):
    defaults: ClassVar[Json] = {"rope_theta": 1000000.0, "norm_eps": 1e-5, "conv_L_cache": 3, "tie_word_embeddings": True}
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "conv"})
    top: ClassVar[Names] = Decoder.top | {"norm": "model.embedding_norm"}
    names: ClassVar[Names] = Qwen3.names | {
        **{"in_proj": "conv.in_proj", "conv": Stored("conv.conv", TAPS), "out_proj": "conv.out_proj"},
        **{"o_proj": "self_attn.out_proj", "q_norm": "self_attn.q_layernorm", "k_norm": "self_attn.k_layernorm"},
        **{"input_layernorm": "operator_norm", "post_attention_layernorm": "ffn_norm"},
        **{"gate_proj": "feed_forward.w1", "up_proj": "feed_forward.w3", "down_proj": "feed_forward.w2"},
    }

    def caches(self, w: Layer) -> dict[str, Spec]:
        c = w.config
        return {"conv": State({"conv": (c.conv_L_cache - 1, c.hidden)})} if c.kind == "conv" else super().caches(w)

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        return self.convolve(w, x, step) if w.config.kind == "conv" else super().attend(w, x, step)

    def convolve(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        state, h, wide = step.view(w, "conv"), x.shape[1], w.in_proj(x)
        before, after, x = wide[:, :h], wide[:, h : 2 * h], wide[:, 2 * h :]
        out = causal_conv(mul(before, x), w.conv.weight, w.conv.bias, state["conv"], *step.walk(state), activate=False)
        return w.out_proj(mul(after, out))
