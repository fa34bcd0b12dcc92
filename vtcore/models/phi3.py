"""Phi 3: Llama, with q, k, v stored as one matrix, and gate and up as another."""

from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import STACKED, gate_up, qkv
from vtcore.models.llama import Llama


@architecture("Phi3ForCausalLM", gguf=("phi3",))
class Phi3(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"use_sliding_window": True, "rms_norm_eps": 1e-5}
    names: ClassVar[Names] = Llama.names | qkv("self_attn.qkv_proj", STACKED) | gate_up("mlp.gate_up_proj")
