"""Nemotron: Llama, with LayerNorm whose weights are stored minus one, an MLP of squared ReLU, and half of each head turning."""

from typing import ClassVar

from vtcore.models.decoder import Decoder, Names, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.gemma import PLUS_ONE
from vtcore.models.llama import Llama
from vtcore.models.plain import Plain


@architecture("NemotronForCausalLM", gguf=("nemotron",))
class Nemotron(Plain):
    defaults: ClassVar[Json] = Plain.defaults | {"hidden_act": "relu2", "partial_rotary_factor": 0.5}
    top: ClassVar[Names] = Decoder.top | {"norm": Stored("model.norm", PLUS_ONE)}
    names: ClassVar[Names] = Llama.names | {n: Stored(n, PLUS_ONE) for n in ("input_layernorm", "post_attention_layernorm")}
