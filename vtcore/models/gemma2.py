"""Gemma 2: Gemma, with norms after each part too, soft caps, and a sliding window on every other layer."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.gemma import Gemma
from vtcore.ops import add


@architecture("Gemma2ForCausalLM", gguf=("gemma2",))
class Gemma2(Gemma):
    defaults: ClassVar[Json] = Gemma.defaults | {
        "num_attention_heads": 8, "num_key_value_heads": 4, "query_pre_attn_scalar": 256, "hidden_activation": "gelu_pytorch_tanh",
        "use_sliding_window": True, "sliding_window": 4096, "sliding_window_pattern": 2,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    }  # fmt: skip

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        a = self.attend(w, self.norm(x, w.input_layernorm), step)
        x = add(x, self.norm(a, w.post_attention_layernorm))
        m = self.mlp(w, self.norm(x, w.pre_feedforward_layernorm), step)
        return add(x, self.norm(m, w.post_feedforward_layernorm))
