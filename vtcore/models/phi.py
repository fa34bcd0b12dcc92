"""Phi: one LayerNorm before attention and a plain GELU MLP side by side; part of each head turns; biases everywhere."""

from typing import ClassVar

from vtcore.models.decoder import Decoder, Names, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.parallel import OneNorm
from vtcore.models.plain import Plain


@architecture("PhiForCausalLM", gguf=("phi2",))
class Phi(OneNorm, Plain):
    defaults: ClassVar[Json] = Plain.defaults | {"hidden_act": "gelu_new", "partial_rotary_factor": 0.5, "attention_bias": True}
    only: ClassVar[Json] = {"qk_layernorm": False}
    top: ClassVar[Names] = Decoder.top | {"norm": "model.final_layernorm"}
    names: ClassVar[Names] = Llama.names | {"o_proj": "self_attn.dense", "up_proj": "mlp.fc1", "down_proj": "mlp.fc2"}
