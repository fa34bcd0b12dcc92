"""Mistral: Llama, with a sliding window on every layer if config.json has one."""

from typing import ClassVar

from vtcore.models.decoder import architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama


@architecture("MistralForCausalLM", within="llama")
class Mistral(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"use_sliding_window": True, "sliding_window": 4096, "num_key_value_heads": 8}
