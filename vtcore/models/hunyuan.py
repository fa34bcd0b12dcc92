"""HunYuan, dense: Llama, with queries and keys normalised per head after the rotation."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Names, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama


@architecture("HunYuanDenseV1ForCausalLM", gguf=("hunyuan-dense",))
class HunYuan(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"rms_norm_eps": 1e-5}
    names: ClassVar[Names] = Llama.names | {"q_norm": "self_attn.query_layernorm", "k_norm": "self_attn.key_layernorm"}

    def attention(self, w: Layer, q: Array, k: Array, v: Array, step: Step, **extra: object) -> Array:
        return super().attention(w, self.norm(q, w.q_norm), self.norm(k, w.k_norm), v, step, **extra)
