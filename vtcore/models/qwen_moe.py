"""Qwen 3 MoE: Qwen 3, with experts in place of the MLP. Qwen 2 MoE: Qwen 2, and beside them a shared one behind a gate of its own."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Names, Stored, Values, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import ROUTED, ROUTING, Mixture, shared
from vtcore.models.qwen2 import Qwen2
from vtcore.models.qwen3 import Qwen3
from vtcore.ops import sigmoid_mul

SWITCH = Stored("mlp.shared_expert_gate", Values(lambda a, c: a.reshape(1, -1)))  # GGUF has it as a vector


@architecture("Qwen3MoeForCausalLM", gguf=("qwen3moe",))
class Qwen3Moe(Mixture, Qwen3):
    defaults: ClassVar[Json] = Qwen3.defaults | ROUTING


@architecture("Qwen2MoeForCausalLM", gguf=("qwen2moe",))
class Qwen2Moe(Mixture, Qwen2):
    defaults: ClassVar[Json] = Qwen2.defaults | ROUTING | {"norm_topk_prob": False}
    names: ClassVar[Names] = Llama.names | ROUTED | shared("mlp.shared_expert") | {"shared_switch": SWITCH}

    def shared(self, w: Layer, x: Array) -> Array:
        return sigmoid_mul(super().shared(w, x), w.shared_switch(x))
