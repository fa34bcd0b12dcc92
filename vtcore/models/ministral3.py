"""Ministral 3: Llama, whose queries grow with their position."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Step, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.mistral import Mistral
from vtcore.ops import mul, position_growth


@architecture("Ministral3ForCausalLM", gguf=("mistral3",))
class Ministral3(Mistral):
    defaults: ClassVar[Json] = Mistral.defaults | {"rms_norm_eps": 1e-5, "sliding_window": None, "rope_theta": 1e6}

    def attention(self, w: Layer, q: Array, k: Array, v: Array, step: Step, **extra: object) -> Array:
        rope = w.config.rope or {}
        if rate := Fields(rope, "the rope's parameters").number("llama_4_scaling_beta", default=0.0):
            period = rope["original_max_position_embeddings"]
            q = mul(q, position_growth(step.batch.positions, period, rate).reshape(q.shape[0], 1, 1))
        return super().attention(w, q, k, v, step, **extra)
