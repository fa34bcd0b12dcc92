"""Learned positions: an embedding for each place in the sequence, added to the token's, instead of a rotation."""

from typing import ClassVar

from vtcore.models.decoder import Array, Step
from vtcore.models.fields import Json
from vtcore.models.plain import Plain
from vtcore.ops import add, embedding


class Placed(Plain):
    defaults: ClassVar[Json] = {"tie_word_embeddings": True, "use_sliding_window": False}

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        return self.placed(super().embed_tokens(tokens, step), step)

    def placed(self, x: Array, step: Step) -> Array:
        """[T, hidden], with what the positions add."""
        return add(x, embedding(self.top_weights.embed_positions.weight, step.batch.positions))
