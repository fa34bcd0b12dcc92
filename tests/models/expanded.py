"""Latent attention as its papers write it: every head has keys and values of its own, made of the latents, and these are kept."""

import numpy as np

from vtcore.kvcache.cache import Paged
from vtcore.models.decoder import heads
from vtcore.models.latent import LatentAttention
from vtcore.ops import concat, linear
from vtcore.tensor import of


class Expanded(LatentAttention):
    """In front of a model's class: its `attend` in the other form. Repeats the rotated part of a key for each head by NumPy."""

    def caches(self, w):
        caches, c = super().caches(w), w.config
        return caches | ({"kv": Paged({"k": (c.heads, c.head_dim), "v": (c.heads, c.v_head_dim)})} if "kv" in caches else {})

    def attend(self, w, x, step):
        c = w.config
        if c.kind == "linear_attention":
            return super().attend(w, x, step)
        low = self.inner_norm(w.q_a_proj(x), w.q_a_layernorm) if c.rest["q_lora_rank"] else x
        q = heads((w.q_b_proj if c.rest["q_lora_rank"] else w.q_proj)(low), c.head_dim)
        q = concat(q[..., : c.qk_nope_head_dim], self.rotate(w, q[..., c.qk_nope_head_dim :], step))
        both = w.kv_a_proj(x)
        latent, turned = self.inner_norm(both[:, : c.kv_lora_rank], w.kv_a_layernorm), both[:, None, c.kv_lora_rank :]
        keys, v = heads(linear(latent, self.rows(w, "k_up")), c.qk_nope_head_dim), heads(linear(latent, self.rows(w, "v_up")), c.v_head_dim)
        turned = of(np.repeat(self.rotate(w, turned, step).numpy(), c.heads, 1))
        out = self.attention(w, q, concat(keys, turned), v, step, **self.choose(w, x, low, step))
        return self.output(w, x, out)

    def rows(self, w, name):
        """[H * n, latent]: what makes a head's keys or values."""
        made = w.__dict__.setdefault("expanded", {})
        if name not in made:
            up = np.asarray(getattr(w, name).numpy(), np.float32)
            up = up if name == "k_up" else up.swapaxes(1, 2)
            made[name] = of(np.ascontiguousarray(up.reshape(-1, up.shape[-1])))
        return made[name]


def expanded(model):
    """The same weights in that form."""
    return type("Expanded", (Expanded, type(model)), {})(model.config, model.weights, model.dialect)
