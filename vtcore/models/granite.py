"""Granite: Llama, with multipliers on embeddings, residuals and logits (and, in the config, on attention scores)."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.ops import add, scale


@architecture("GraniteForCausalLM", gguf=("granite",))
class Granite(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {
        **dict.fromkeys(("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"), 1.0)
    }

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        return scale(super().embed_tokens(tokens, step), self.config.embedding_multiplier)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        m = self.config.residual_multiplier
        x = add(x, scale(self.attend(w, self.norm(x, w.input_layernorm), step), m))
        return add(x, scale(self.mlp(w, self.norm(x, w.post_attention_layernorm), step), m))

    def head(self, x: Array) -> Array:
        return scale(super().head(x), 1 / self.config.logits_scaling)
