"""Norms of heads: Llama, with queries and keys through a LayerNorm that has weights for each head, if config.json says so."""

from vtcore.models.decoder import Array, Layer, Param
from vtcore.models.llama import Llama
from vtcore.ops import layer_norm, mul


class HeadNormed(Llama):
    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        q, k, v = super().project(w, x)
        return (self.head_norm(q, w.q_norm), self.head_norm(k, w.k_norm), v) if self.config.rest.get("qk_layernorm") else (q, k, v)

    def head_norm(self, x: Array, p: Param) -> Array:
        """x [T, heads, head_dim], the weight [heads, head_dim]."""
        return mul(layer_norm(x, None, None, self.config.eps), p.weight)
