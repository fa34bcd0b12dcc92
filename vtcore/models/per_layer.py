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
            own = heads(scale(embedding(t.embed_tokens_per_layer.weight, step.batch.tokens), width**0.5), width)
            seen = heads(scale(t.per_layer_model_projection(x), c.hidden**-0.5), width)
            step.shared["per_layer"] = scale(add(self.norm(seen, t.per_layer_projection_norm), own), 2**-0.5)
        return x

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = super().layer(w, x, step)
        if (rows := step.shared.get("per_layer")) is None:
            return x
        h = w.per_layer_projection(gelu_mul(w.per_layer_input_gate(x), rows[:, w.index]))
        return add(x, self.norm(h, w.post_per_layer_input_norm))
