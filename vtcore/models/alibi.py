"""Attention with linear biases (ALiBi): instead of a rotation, scores that fall with distance, for each head at a slope of its own."""

from typing import Any, ClassVar

import numpy as np

from vtcore import tensor
from vtcore.models.decoder import Array, Layer, Step
from vtcore.models.fields import Json
from vtcore.models.plain import Plain


class Alibi(Plain):
    defaults: ClassVar[Json] = {"tie_word_embeddings": True, "use_sliding_window": False, "alibi_bias_max": 8}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.slopes = tensor.of(slopes(self.config.heads, self.config.alibi_bias_max))

    def attention(self, w: Layer, q: Array, k: Array, v: Array, step: Step, **extra: Any) -> Array:
        return super().attention(w, q, k, v, step, slopes=self.slopes, **extra)


def slopes(heads: int, steepest: float) -> np.ndarray[Any, Any]:
    """2^(-steepest i / n) for heads 1 to n, n a power of two; what is over takes every other slope of twice as many. [heads]."""
    near = 2 ** (heads.bit_length() - 1)
    own = 2.0 ** (-steepest * np.arange(1, near + 1) / near)
    between = 2.0 ** (-steepest * np.arange(1, 2 * (heads - near) + 1, 2) / (2 * near))
    return np.concatenate([own, between]).astype(np.float32)
