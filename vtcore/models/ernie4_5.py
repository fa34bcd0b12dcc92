"""ERNIE 4.5: Llama, whose rope turns neighbouring channels."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama


@architecture("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", gguf=("ernie4_5",))
class Ernie45(Llama):
    interleaved: ClassVar[bool] = True
    words: ClassVar[Mapping[str, str]] = {"use_bias": "attention_bias"}
    defaults: ClassVar[Json] = Llama.defaults | {"rope_theta": 500000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
