"""Embeddings for each layer: Llama, with a second, narrow table: a row of every token for every layer, mixed into the layer's output."""

from typing import ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, Names, Step, heads
from vtcore.models.llama import Llama
from vtcore.ops import add, embedding, gelu_mul, scale

TABLES = ("embed_tokens_per_layer", "per_layer_model_projection", "per_layer_projection_norm")


class PerLayer(Llama):
    top: ClassVar[Names] = Decoder.top | {n: f"model.{n}" for n in TABLES}

    def embed(self, step: Step) -> Array:
        x, t, c = super().embed(step), self.top_weights, self.config
        if width := c.rest["hidden_size_per_layer_input"]:
            own = heads(scale(embedding(t.embed_tokens_per_layer.weight, self.rows(step.batch.tokens)), width**0.5), width)
            seen = heads(scale(t.per_layer_model_projection(x), c.hidden**-0.5), width)
            step.shared["per_layer"] = scale(add(self.norm(seen, t.per_layer_projection_norm), own), 2**-0.5)
        return x

    def rows(self, tokens: Array) -> Array:
        """Which row of the second table each token has."""
        return tokens

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = super().layer(w, x, step)
        return add(x, self.own(w, x, step)) if "per_layer" in step.shared else x

    def own(self, w: Layer, x: Array, step: Step) -> Array:
        """What the layer's own rows add to its output [T, hidden]."""
        h = w.per_layer_projection(gelu_mul(w.per_layer_input_gate(x), step.shared["per_layer"][:, w.index]))
        return self.norm(h, w.post_per_layer_input_norm)
