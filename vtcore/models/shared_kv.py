"""Shared caches: Llama, with last layers that read the keys and values of the last earlier layer of their kind."""

from vtcore.kvcache.cache import Spec
from vtcore.models.decoder import Array, Layer, Step
from vtcore.models.llama import Llama


class SharedKV(Llama):
    def source(self, w: Layer) -> Layer | None:
        """The layer whose keys and values this one reads, if it has none of its own."""
        first = self.config.layers - self.config.num_kv_shared_layers
        return next((s for s in reversed(self.layers[:first]) if s.config.kind == w.config.kind), None) if w.index >= first else None

    def caches(self, w: Layer) -> dict[str, Spec]:
        return {} if self.source(w) else super().caches(w)

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        q, source = self.rotate(w, self.queries(w, x), step), self.source(w)
        if source is None:
            k, v = self.keys_values(w, x)
            return self.output(w, x, self.attention(w, q, self.rotate(w, k, step), v, step))
        kv = step.view(source)
        return self.output(w, x, self.look(w, q, kv["k"], kv["v"], kv.group, step))

    def queries(self, w: Layer, x: Array) -> Array:
        """[T, heads, head_dim], before the rotation."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define queries")

    def keys_values(self, w: Layer, x: Array) -> tuple[Array, Array]:
        """[T, kv heads, head_dim] each, keys before the rotation."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define keys_values")
