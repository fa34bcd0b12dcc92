"""Phi 3.5 MoE: Mixtral with LayerNorm and biases, and two experts, each weighed among those that come near it."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, architecture
from vtcore.models.fields import Json
from vtcore.models.mixtral import Mixtral
from vtcore.models.plain import LayerNormed
from vtcore.ops import route_sparse


@architecture("PhimoeForCausalLM", "PhiMoEForCausalLM", gguf=("phimoe",))
class PhiMoe(Mixtral):
    only: ClassVar[Json] = {"num_experts_per_tok": 2}
    defaults: ClassVar[Json] = Mixtral.defaults | {"router_jitter_noise": 0.01}
    norm = LayerNormed.norm

    def route(self, w: Layer, x: Array) -> tuple[Array, Array]:
        weights, ids = route_sparse(w.router(x), w.config.router_jitter_noise)
        return weights, ids
