"""OLMo: Llama, with LayerNorm that has no weights, and queries, keys and values kept within limits."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.ops import add, clamp, layer_norm

EPS = 1e-5


class Clamped(Llama):
    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        q, k, v = super().project(w, x)
        limit = self.config.rest.get("clip_qkv")
        return (clamp(q, limit), clamp(k, limit), clamp(v, limit)) if limit else (q, k, v)


@architecture("OlmoForCausalLM", gguf=("olmo",))
class Olmo(Clamped):
    defaults: ClassVar[Json] = {"rope_theta": 10000.0}

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = add(x, self.attend(w, layer_norm(x, None, None, EPS), step))
        return add(x, self.mlp(w, layer_norm(x, None, None, EPS), step))

    def finish(self, x: Array) -> Array:
        return layer_norm(x, None, None, EPS)
