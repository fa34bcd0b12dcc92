"""Gemma: Llama, with norm weights stored minus one, GELU, and embeddings scaled by the square root of their width."""

from typing import Any, ClassVar

import numpy as np

from vtcore.models.decoder import Array, Decoder, ModelConfig, Names, Step, Stored, Values, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.ops import scale

PLUS_ONE = Values(lambda weight, c: weight + np.float32(1))
NORMS = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")


@architecture("GemmaForCausalLM", gguf=("gemma",))
class Gemma(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"head_dim": 256, "tie_word_embeddings": True, "hidden_act": "gelu_pytorch_tanh"}
    names: ClassVar[Names] = Llama.names | {n: Stored(n, PLUS_ONE) for n in NORMS}
    top: ClassVar[Names] = Decoder.top | {"norm": Stored("model.norm", PLUS_ONE)}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        old = {"hidden_act": "gelu_pytorch_tanh"} if raw.get("hidden_act") == "gelu" else {}  # so the first files called it
        return super().read_config(raw | old, max_model_len, **source)

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        return scale(super().embed_tokens(tokens, step), self.config.hidden**0.5)
