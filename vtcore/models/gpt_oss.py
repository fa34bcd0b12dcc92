"""gpt-oss: Llama with attention sinks, windows on every other layer, and experts with biases whose gate and up rows alternate, clamped."""

from typing import Any, ClassVar

from vtcore.models.decoder import Array, Layer, Names, Rows, Step, Stored, StoredExperts, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import PARTS, Mixture
from vtcore.models.names import Turned


def _alternate(first: int, axis: int = 0) -> Rows:
    return Rows(lambda rows, c: rows[first::2], axis)


@architecture("GptOssForCausalLM", gguf=("gpt-oss",))
class GptOss(Mixture):
    defaults: ClassVar[Json] = Mixture.defaults | {
        "use_sliding_window": True, "sliding_window": 128, "sliding_window_pattern": 2, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
        "attention_bias": True, "swiglu_alpha": 1.702, "swiglu_limit": 7.0,
    }  # fmt: skip
    names: ClassVar[Names] = Llama.names | {
        "sinks": Stored("self_attn.sinks", bare=True),
        "router": "mlp.router",
        "experts_gate": StoredExperts("mlp.experts.gate_up_proj", Turned(_alternate(0))),
        "experts_up": StoredExperts("mlp.experts.gate_up_proj", Turned(_alternate(1))),
        "experts_down": StoredExperts("mlp.experts.down_proj", Turned()),
        "experts_gate_bias": Stored("mlp.experts.gate_up_proj_bias", _alternate(0, 1)),
        "experts_up_bias": Stored("mlp.experts.gate_up_proj_bias", _alternate(1, 1)),
        "experts_down_bias": "mlp.experts.down_proj_bias",
    }

    def attention(self, w: Layer, q: Array, k: Array, v: Array, step: Step, **extra: Any) -> Array:
        return super().attention(w, q, k, v, step, sinks=w.sinks, **extra)

    def experts(self, w: Layer, x: Array, weights: Array, ids: Array, act: str = "oai", **extra: Any) -> Array:
        extra |= {f"{part}_bias": getattr(w, f"experts_{part}_bias") for part in PARTS}
        return super().experts(w, x, weights, ids, act, alpha=w.config.swiglu_alpha, limit=w.config.swiglu_limit, **extra)
