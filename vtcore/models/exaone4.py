"""EXAONE 4: Qwen 3 with norms after each part instead of before; where there are windows, the layers that see all don't rotate."""

from dataclasses import replace
from typing import ClassVar

from vtcore.models.decoder import ModelConfig, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.olmo2 import PostNorm
from vtcore.models.qwen3 import Qwen3


@architecture("Exaone4ForCausalLM", gguf=("exaone4",))
class Exaone4(PostNorm, Qwen3):
    defaults: ClassVar[Json] = Llama.defaults | {"use_sliding_window": True, "rms_norm_eps": 1e-5, "sliding_window_pattern": 4}

    def layer_config(self, index: int) -> ModelConfig:
        c = super().layer_config(index)
        return c if c.window or not self.config.window else replace(c, rope=None)
