"""Qwen 3 VL MoE: Qwen 3 MoE, with gate and up of all experts in one tensor, and down in another, in either orientation."""

from typing import ClassVar

from vtcore.models.decoder import Names, StoredExperts, architecture
from vtcore.models.fused import GATE, UP
from vtcore.models.names import Facing
from vtcore.models.qwen_moe import Qwen3Moe


@architecture("Qwen3VLMoeForConditionalGeneration")
class Qwen3VLMoe(Qwen3Moe):
    names: ClassVar[Names] = Qwen3Moe.names | {
        "experts_gate": StoredExperts("mlp.experts.gate_up_proj", Facing("hidden", GATE)),
        "experts_up": StoredExperts("mlp.experts.gate_up_proj", Facing("hidden", UP)),
        "experts_down": StoredExperts("mlp.experts.down_proj", Facing("moe_intermediate_size")),
    }
