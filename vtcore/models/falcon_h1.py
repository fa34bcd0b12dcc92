"""Falcon H1: attention and a selective scan side by side in every layer; each part under a multiplier of its own."""

from typing import Any, ClassVar

import numpy as np

from vtcore.kvcache.cache import Spec
from vtcore.models.bamba import Bamba
from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, Stored, Values, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.selective import SelectiveScan
from vtcore.ops import add, rms_norm, scale, silu_mul

MULTIPLIERS = {
    **dict.fromkeys(("embedding", "lm_head", "key", "attention_in", "attention_out", "ssm_in", "ssm_out"), 1),
    **{"ssm": 5, "mlp": 2},
}  # how many numbers each has


def _scaled(weight: Any, c: ModelConfig) -> Any:
    """in_proj with the multipliers of its five parts and of its input folded in; its bias with the former."""
    inner, wide = c.mamba_n_heads * c.mamba_d_head, c.mamba_n_groups * c.mamba_d_state
    parts = np.repeat(np.float32(c.ssm_multipliers), (inner, inner, wide, wide, c.mamba_n_heads))
    return weight * parts if weight.ndim == 1 else weight * parts[:, None] * np.float32(c.ssm_in_multiplier)


IN_PROJ = Values(_scaled)
KEYS = Values(lambda a, c: a * np.float32(c.key_multiplier))
GATES = Values(lambda a, c: a * np.float32(c.mlp_multipliers[0]))
DOWNS = Values(lambda a, c: a * np.float32(c.mlp_multipliers[1]))
FOLDED = frozenset({IN_PROJ, KEYS, GATES, DOWNS})  # GGUF holds them multiplied


@architecture("FalconH1ForCausalLM", gguf=("falcon-h1",))
class FalconH1(SelectiveScan, Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"mamba_rms_norm": False, "mamba_norm_before_gate": False}
    defaults = defaults | {f"{n}_multiplier" + "s" * (many > 1): 1.0 if many == 1 else [1.0] * many for n, many in MULTIPLIERS.items()}
    only: ClassVar[Json] = {"mamba_norm_before_gate": False}
    top: ClassVar[Names] = Decoder.top | {"norm": "model.final_layernorm"}
    names: ClassVar[Names] = Bamba.names | {
        "post_attention_layernorm": Stored("pre_ff_layernorm", bare=True),  # GGUF names it without .weight
        "in_proj": Stored("mamba.in_proj", IN_PROJ, both=True),
        "k_proj": Stored("self_attn.k_proj", KEYS, both=True),
        "gate_proj": Stored("feed_forward.gate_proj", GATES, both=True),
        "down_proj": Stored("feed_forward.down_proj", DOWNS, both=True),
    }

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"))
        for name, many in MULTIPLIERS.items():
            _ = f.number(f"{name}_multiplier", above=True) if many == 1 else f.numbers(f"{name}_multipliers", many)
        return super().read_config(raw, max_model_len, **source)

    def caches(self, w: Layer) -> dict[str, Spec]:
        return Decoder.caches(self, w) | self.scan_caches(w)

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        return scale(super().embed_tokens(tokens, step), self.config.embedding_multiplier)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        c, h = w.config, self.norm(x, w.input_layernorm)
        scanned = scale(self.recur(w, h, step), c.ssm_out_multiplier)
        seen = scale(self.attend(w, scale(h, c.attention_in_multiplier), step), c.attention_out_multiplier)
        x = add(x, add(scanned, seen))
        return add(x, self.mlp(w, rms_norm(x, w.post_attention_layernorm, c.eps), step))

    def gated(self, w: Layer, y: Array, z: Array) -> Array:
        return super().gated(w, y, z) if w.config.mamba_rms_norm else silu_mul(z, y)

    def head(self, x: Array) -> Array:
        return scale(super().head(x), self.config.lm_head_multiplier)
