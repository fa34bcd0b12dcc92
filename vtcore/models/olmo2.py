"""OLMo 2 and 3: Llama with norms after each part instead of before, and q and k normalised whole; 3 with windows."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Step, architecture, heads
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.ops import add


class PostNorm(Llama):
    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = add(x, self.norm(self.attend(w, x, step), w.post_attention_layernorm))
        return add(x, self.norm(self.mlp(w, x, step), w.post_feedforward_layernorm))


@architecture("Olmo2ForCausalLM", gguf=("olmo2",))
class Olmo2(PostNorm):
    defaults: ClassVar[Json] = Llama.defaults | {"rms_norm_eps": 1e-5}

    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        d = w.config.head_dim
        q, k = self.norm(w.q_proj(x), w.q_norm), self.norm(w.k_proj(x), w.k_norm)
        return heads(q, d), heads(k, d), heads(w.v_proj(x), d)


@architecture("Olmo3ForCausalLM", within="olmo2")
class Olmo3(Olmo2):
    defaults: ClassVar[Json] = Olmo2.defaults | {
        "use_sliding_window": True, "sliding_window": 4096, "sliding_window_pattern": 4, "rope_theta": 500000.0,
    }  # fmt: skip
