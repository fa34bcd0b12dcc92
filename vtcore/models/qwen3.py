"""Qwen 3: Llama, with queries and keys normalised per head before the rotation."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama


@architecture("Qwen3ForCausalLM", gguf=("qwen3",))
class Qwen3(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"head_dim": 128, "sliding_window": 4096, "max_window_layers": 28}

    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        q, k, v = super().project(w, x)
        return self.norm(q, w.q_norm), self.norm(k, w.k_norm), v
