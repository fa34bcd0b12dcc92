"""Qwen 2: Llama, with biases on q, k and v; from some layer on a sliding window, if config.json switches it on."""

from typing import ClassVar

from vtcore.models.decoder import architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama


@architecture("Qwen2ForCausalLM", gguf=("qwen2",))
class Qwen2(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"qkv_bias": True, "sliding_window": 4096, "max_window_layers": 28}
