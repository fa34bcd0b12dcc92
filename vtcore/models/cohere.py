"""Command R: one LayerNorm without bias before attention and MLP side by side, a rope that turns neighbours, and scaled logits.

Command R7B: Command R with windows, of which only the layers that have one rotate."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from vtcore.models.decoder import Array, ModelConfig, Param, architecture
from vtcore.models.fields import Json
from vtcore.models.head_norm import HeadNormed
from vtcore.models.parallel import OneNorm
from vtcore.ops import layer_norm, scale


@architecture("CohereForCausalLM", gguf=("command-r",))
class Cohere(OneNorm, HeadNormed):
    interleaved: ClassVar[bool] = True
    words: ClassVar[Mapping[str, str]] = {"use_qk_norm": "qk_layernorm"}
    defaults: ClassVar[Json] = {"rope_theta": 10000.0, "tie_word_embeddings": True, "logit_scale": 0.0625}

    def norm(self, x: Array, p: Param) -> Array:
        return layer_norm(x, p.weight, None, self.config.eps)

    def head(self, x: Array) -> Array:
        return scale(super().head(x), self.config.logit_scale)


@architecture("Cohere2ForCausalLM", gguf=("cohere2",))
class Cohere2(Cohere):
    defaults: ClassVar[Json] = Cohere.defaults | {"sliding_window": 4096, "sliding_window_pattern": 4}

    def layer_config(self, index: int) -> ModelConfig:
        c = super().layer_config(index)
        return c if c.window else replace(c, rope=None)
