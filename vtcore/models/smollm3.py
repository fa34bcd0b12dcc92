"""SmolLM 3: Llama in which every fourth layer does not rotate."""

from dataclasses import replace
from typing import ClassVar

from vtcore.models.decoder import ModelConfig, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama


@architecture("SmolLM3ForCausalLM", gguf=("smollm3",))
class SmolLM3(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"rope_theta": 2e6, "tie_word_embeddings": True, "no_rope_layer_interval": 4}

    def layer_config(self, index: int) -> ModelConfig:
        c = super().layer_config(index)
        listed = c.rest.get("no_rope_layers")
        turns = listed[index] if listed else (index + 1) % c.no_rope_layer_interval
        return c if turns else replace(c, rope=None)
