"""Shared caches: Gemma 2 with plain norms and no score scale, whose queries, keys and values are normalised per head; the last layers read
the keys and values of the last earlier layer of their kind."""

from typing import ClassVar

from vtcore.kvcache.cache import Spec
from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, heads
from vtcore.models.fields import Json
from vtcore.models.gemma2 import Gemma2
from vtcore.models.llama import Llama
from vtcore.ops import rms_norm


class SharedKV(Gemma2):
    top: ClassVar[Names] = Decoder.top
    names: ClassVar[Names] = Llama.names
    defaults: ClassVar[Json] = {
        "attention_multiplier": 1.0, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
        "head_dim": 256, "sliding_window": 512, "num_kv_shared_layers": 0,
    }  # fmt: skip

    @classmethod
    def spare(cls, config: ModelConfig) -> set[tuple[int, str]]:
        first = max(0, config.layers - config.num_kv_shared_layers)
        return {(i, name) for i in range(first, config.layers) for name in ("k_proj", "v_proj", "k_norm")}

    def source(self, w: Layer) -> Layer | None:
        """The layer whose keys and values this one reads, if it has none of its own."""
        first = self.config.layers - self.config.num_kv_shared_layers
        return next((s for s in reversed(self.layers[:first]) if s.config.kind == w.config.kind), None) if w.index >= first else None

    def caches(self, w: Layer) -> dict[str, Spec]:
        return {} if self.source(w) else super().caches(w)

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        q, source = self.rotate(w, self.norm(heads(w.q_proj(x), w.config.head_dim), w.q_norm), step), self.source(w)
        if source is None:
            k, v = self.keys_values(w, x)
            return self.output(w, x, self.attention(w, q, self.rotate(w, k, step), v, step))
        return self.output(w, x, self.recall(w, source, q, step))

    def keys_values(self, w: Layer, x: Array) -> tuple[Array, Array]:
        """[T, kv heads, head_dim] each, keys before the rotation; values are normalised without a weight."""
        k, v = (heads(project(x), w.config.head_dim) for project in (w.k_proj, w.v_proj))
        return self.norm(k, w.k_norm), rms_norm(v, None, w.config.eps)
