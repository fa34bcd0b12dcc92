"""GLM 4.5: Llama, with biases on q, k and v, heads normalised if config.json says so, half of each turning; experts chosen by sigmoid and
bias, beside a shared one; a part of the first layers dense."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Names, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import BIASED, SIGMOID, Mixture


@architecture("Glm4MoeForCausalLM", gguf=("glm4moe",))
class Glm4Moe(Mixture):
    score: ClassVar[str] = "sigmoid"
    only: ClassVar[Json] = SIGMOID
    defaults: ClassVar[Json] = Mixture.defaults | {"rms_norm_eps": 1e-5, "partial_rotary_factor": 0.5, "use_qk_norm": False}
    names: ClassVar[Names] = Llama.names | BIASED
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, "attention_bias": "qkv_bias"}

    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        q, k, v = super().project(w, x)
        return (self.norm(q, w.q_norm), self.norm(k, w.k_norm), v) if w.config.use_qk_norm else (q, k, v)
