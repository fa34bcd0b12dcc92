"""Multi-head latent attention: a token is kept as one narrow vector for all heads, and queries go into its space (absorbed), always.

The other form, keys and values of each head made from what is kept, needs fewer products where many tokens are new. To choose it then would
let a token's bits hang on how its request was cut, and on what a cache knew; tests hold both forms together."""

from dataclasses import replace
from typing import Any, ClassVar

from vtcore.kvcache.cache import Paged, Spec
from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Array, Layer, Names, Param, Step, Stored, Values, flat, heads
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.names import Numbers
from vtcore.models.rope import yarn_mscale, yarn_stretch
from vtcore.ops import concat, per_head, rms_norm, write_pages

EPS = 1e-6  # of the norms inside, whatever config.json says of the others


def _per_head(weight: Numbers, c: ModelConfig) -> Numbers:
    """[H * (nope + v), latent] as [H, nope + v, latent]."""
    return weight.reshape(-1, c.qk_nope_head_dim + c.v_head_dim, weight.shape[1])


KEYS = Values(lambda weight, c: _per_head(weight, c)[:, : c.qk_nope_head_dim])
VALUES = Values(lambda weight, c: _per_head(weight, c)[:, c.qk_nope_head_dim :].swapaxes(1, 2))


def _mscale(rope: Json) -> float:
    """What yarn multiplies queries and keys by, beyond their rotating part."""
    p = Fields(rope, "the rope's parameters")
    stretched = rope.get("rope_type") == "yarn" and p.has("mscale_all_dim")
    return yarn_mscale(yarn_stretch(p), p.number("mscale_all_dim")) if stretched else 1.0


class LatentAttention(Llama):
    """`attend` of DeepSeek-V2 (2024) and its descendants. A variant may choose what each token looks at."""

    latent_names: ClassVar[Names] = {
        **{n: f"self_attn.{n}" for n in ("q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_layernorm")},
        "kv_a_proj": "self_attn.kv_a_proj_with_mqa",
        "k_up": Stored("self_attn.kv_b_proj", KEYS, bare=True),  # [H, nope, latent]
        "v_up": Stored("self_attn.kv_b_proj", VALUES, bare=True),  # [H, latent, v]
    }

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        f.integer("kv_lora_rank")
        f.integer("v_head_dim")
        turned = f.integer("qk_rope_head_dim")
        own = {"head_dim": f.integer("qk_nope_head_dim") + turned, "q_lora_rank": f.integer("q_lora_rank", default=0, low=0) or None}
        c = super().read_config(raw | own, max_model_len, **source)
        biased = c.biased - {"q_proj", "k_proj", "v_proj"} | ({"q_a_proj", "kv_a_proj"} if "o_proj" in c.biased else set())
        return replace(c, rope_dim=turned, scale=c.head_dim**-0.5 * _mscale(c.ropes.get("") or {}) ** 2, biased=biased)

    def caches(self, w: Layer) -> dict[str, Spec]:
        return {"kv": Paged({"latent": (w.config.kv_lora_rank + w.config.qk_rope_head_dim,)})}

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        c, kv = w.config, step.view(w)
        low = self.inner_norm(w.q_a_proj(x), w.q_a_layernorm) if c.rest["q_lora_rank"] else x
        q = heads((w.q_b_proj if c.rest["q_lora_rank"] else w.q_proj)(low), c.head_dim)
        q = concat(per_head(q[..., : c.qk_nope_head_dim], w.k_up), self.rotate(w, q[..., c.qk_nope_head_dim :], step))
        both = w.kv_a_proj(x)
        latent, k = self.inner_norm(both[:, : c.kv_lora_rank], w.kv_a_layernorm), both[:, None, c.kv_lora_rank :]
        write_pages(kv["latent"], concat(latent, flat(self.rotate(w, k, step))), kv.group.slots)
        pages = kv["latent"][:, :, None]
        out = self.look(w, q, pages, pages[..., : c.kv_lora_rank], kv.group, step, **self.choose(w, x, low, step))
        return self.output(w, x, per_head(out, w.v_up))

    def choose(self, w: Layer, x: Array, low: Array, step: Step) -> dict[str, Array]:
        """Where a family looks at some tokens only, which: {"chosen": [T, C]}. `low`: what queries are made of."""
        return {}

    def inner_norm(self, x: Array, p: Param) -> Array:
        """The norm of a narrow vector."""
        return rms_norm(x, p.weight, EPS)
