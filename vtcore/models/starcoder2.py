"""StarCoder 2: Llama, with LayerNorm, biases, a plain GELU MLP, and a sliding window on every layer if config.json has one."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.plain import Plain


@architecture("Starcoder2ForCausalLM", gguf=("starcoder2",))
class Starcoder2(Plain):
    words: ClassVar[Mapping[str, str]] = {"use_bias": "attention_bias"}
    defaults: ClassVar[Json] = Plain.defaults | {
        "use_sliding_window": True, "hidden_act": "gelu_pytorch_tanh", "use_bias": True, "tie_word_embeddings": True,
    }  # fmt: skip
    names: ClassVar[Names] = Llama.names | {"up_proj": "mlp.c_fc", "down_proj": "mlp.c_proj"}
