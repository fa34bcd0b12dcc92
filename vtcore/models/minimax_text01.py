"""MiniMax Text 01: Mixtral, in which most layers have lightning attention, and residuals are weighed copies of what the norms gave."""

from typing import Any, ClassVar

import numpy as np

from vtcore import tensor
from vtcore.kvcache.cache import Spec, State
from vtcore.models.decoder import Array, Layer, Names, Step, Stored, architecture, flat, heads
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.mixtral import BLOCK
from vtcore.models.mixture import Mixture
from vtcore.models.names import Numbers, Rows
from vtcore.ops import add, rms_norm, scale, selective_scan, sigmoid_mul, silu

EPS = 1e-6  # of the norm inside, whatever config.json says of the others
FACTORS = [f"{part}_{n}_factor" for part in ("linear_attn", "full_attn", "mlp") for n in ("alpha", "beta")]


def _third(part: int) -> Rows:
    """Of qkv_proj, which has a query, a key and a value for each head."""
    return Rows(lambda rows, c: rows.reshape(-1, 3, c.head_dim)[:, part].reshape(-1))


@architecture("MiniMaxForCausalLM")
class MiniMaxText01(Mixture):
    defaults: ClassVar[Json] = Mixture.defaults | dict.fromkeys(FACTORS, 1.0)
    kinds: ClassVar[frozenset[str]] = frozenset({"full_attention", "linear_attention"})
    names: ClassVar[Names] = (
        Llama.names
        | BLOCK
        | {f"linear_{n}": Stored("self_attn.qkv_proj", _third(i)) for i, n in enumerate("qkv")}
        | {"linear_norm": "self_attn.norm", "output_gate": "self_attn.output_gate", "out_proj": "self_attn.out_proj"}
    )

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


def weighed(x: Array, out: Array, alpha: float, beta: float) -> Array:
    """alpha x + beta out."""
    return add(scale(x, float(alpha)), scale(out, float(beta)))


def slopes(many: int, layer: int, layers: int) -> Numbers:
    """How fast each head forgets: as ALiBi's slopes, and slower in later layers. float32 [many]."""
    factor = 1 - layer / (layers - 1 + 1e-5) + 1e-5
    return (2.0 ** (-8 / many * np.arange(1, many + 1)) * factor).astype(np.float32)
