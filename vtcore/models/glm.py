"""GLM: Llama, with half of each head turning in pairs, gate and up in one matrix; GLM 4: and a norm after each part, too."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import gate_up
from vtcore.models.gemma2 import Gemma2
from vtcore.models.llama import Llama


@architecture("GlmForCausalLM", gguf=("chatglm",))
class Glm(Llama):
    interleaved: ClassVar[bool] = True
    words: ClassVar[Mapping[str, str]] = {"attention_bias": "qkv_bias"}
    defaults: ClassVar[Json] = Llama.defaults | {"rms_norm_eps": 1.5625e-07, "partial_rotary_factor": 0.5}
    names: ClassVar[Names] = Llama.names | gate_up("mlp.gate_up_proj")


@architecture("Glm4ForCausalLM", gguf=("glm4",))
class Glm4(Glm):
    names: ClassVar[Names] = Glm.names | {
        "post_attention_layernorm": "post_self_attn_layernorm",
        "pre_feedforward_layernorm": "post_attention_layernorm",
        "post_feedforward_layernorm": "post_mlp_layernorm",
    }
    layer = Gemma2.layer
