"""MiniMax Text 01 and M1: Mixtral, in which most layers have lightning attention, and residuals are weighed copies of what the norms
gave. MiniMaxText01ForCausalLM is how it was published, MiniMaxForCausalLM how transformers says the same."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vtcore import tensor
from vtcore.errors import ConfigError
from vtcore.kvcache.cache import Spec, State
from vtcore.models.activations import SILU
from vtcore.models.config import LAYERS
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, Stored, architecture, flat, heads
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.mixtral import BLOCK
from vtcore.models.mixture import Mixture
from vtcore.models.names import Numbers, Rows
from vtcore.models.rope_config import turning
from vtcore.op import Op
from vtcore.ops import add, rms_norm, scale, selective_scan, sigmoid_mul, silu

EPS = 1e-6  # of the norm inside, whatever config.json says of the others
PARTS = {"linear_attention": "linear_attn", "full_attention": "full_attn", "mlp": "mlp"}  # as published, and as transformers calls them
PUBLISHED = {f"layernorm_{old}_{n}": f"{new}_{n}_factor" for old, new in PARTS.items() for n in ("alpha", "beta")}
FACTORS = tuple(PUBLISHED.values())


def _third(part: int) -> Rows:
    """Of qkv_proj, which has a query, a key and a value for each head."""
    return Rows(lambda rows, c: rows.reshape(-1, 3, c.head_dim)[:, part].reshape(-1))


@architecture("MiniMaxForCausalLM", "MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM")
class MiniMaxText01(Mixture):
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, **PUBLISHED}
    only: ClassVar[Json] = {"postnorm": True, "shared_intermediate_size": 0}
    defaults: ClassVar[Json] = Mixture.defaults | dict.fromkeys(FACTORS, 1.0)
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "linear_attention"})
    acts: ClassVar[Mapping[str, Op]] = SILU
    names: ClassVar[Names] = (
        Llama.names
        | BLOCK
        | {f"linear_{n}": Stored("self_attn.qkv_proj", _third(i)) for i, n in enumerate("qkv")}
        | {"linear_norm": "self_attn.norm", "output_gate": "self_attn.output_gate", "out_proj": "self_attn.out_proj"}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        c = super().read_config(raw | (read_published(f) if f.has("attn_type_list") else {}), max_model_len, **source)
        for key in FACTORS:
            Fields(c.rest, f.file, {new: old for old, new in PUBLISHED.items() if f.has(old)}).number(key, low=-1e6, high=1e6)
        return c

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rates = [tensor.of(-slopes(self.config.heads, i, self.config.layers)) for i in self.indices()]

    def caches(self, w: Layer) -> dict[str, Spec]:
        c = w.config
        return super().caches(w) if c.kind == "full_attention" else {"linear": State({"matrix": (c.heads, c.head_dim, c.head_dim)})}

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        c, linear = w.config, w.config.kind == "linear_attention"
        x = self.norm(x, w.input_layernorm)
        seen = self.recur(w, x, step) if linear else self.attend(w, x, step)
        factors = (c.linear_attn_alpha_factor, c.linear_attn_beta_factor) if linear else (c.full_attn_alpha_factor, c.full_attn_beta_factor)
        x = self.norm(weighed(x, seen, *factors), w.post_attention_layernorm)
        return weighed(x, self.mlp(w, x, step), c.mlp_alpha_factor, c.mlp_beta_factor)

    def recur(self, w: Layer, x: Array, step: Step) -> Array:
        """[T, hidden] to [T, hidden]."""
        state = step.view(w, "linear")
        q, k, v = (heads(silu(project(x)), w.config.head_dim) for project in (w.linear_q, w.linear_k, w.linear_v))
        out = selective_scan(v, None, self.rates[w.index], k, q, None, state["matrix"], *step.walk(state))
        return w.out_proj(sigmoid_mul(rms_norm(flat(out), w.linear_norm.weight, EPS), w.output_gate(x)))


def read_published(f: Fields) -> Json:
    """What the published config.json says in its own way: layers by 0 and 1, and how many channels of a head turn. Where it doesn't say
    postnorm, residuals are what was there before the norms."""
    layers, heads = f.integer("num_hidden_layers", high=LAYERS), f.integer("num_attention_heads")
    if heads & (heads - 1):
        raise ConfigError(f"{f.file}: num_attention_heads is {heads}; of lightning attention that must be a power of two")
    f.switches("attn_type_list", layers)
    own: Json = {"layer_types": ["full_attention" if full else "linear_attention" for full in f.raw["attn_type_list"][:layers]]}
    if f.has("rotary_dim"):
        width = f.integer("head_dim", default=max(1, f.integer("hidden_size") // heads))
        own["partial_rotary_factor"] = turning(f.integer("rotary_dim", high=width), width)
    return own | {"postnorm": f.flag("postnorm")}


def weighed(x: Array, out: Array, alpha: float, beta: float) -> Array:
    """alpha x + beta out."""
    return add(scale(x, float(alpha)), scale(out, float(beta)))


def slopes(many: int, layer: int, layers: int) -> Numbers:
    """How fast each head forgets: as ALiBi's slopes, and slower in later layers. float32 [many]."""
    factor = 1 - layer / (layers - 1 + 1e-5) + 1e-5
    return (2.0 ** (-8 / many * np.arange(1, many + 1)) * factor).astype(np.float32)
