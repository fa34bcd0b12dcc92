"""Llama 4: chunks of attention with rotation and normalised heads, and between them layers that see all, unrotated, with queries that
grow with position; one expert, that weighs its input, beside a shared one, on some of the layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, StoredExperts, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.fused import GATE, UP
from vtcore.models.llama import Llama
from vtcore.models.mixture import Mixture, shared
from vtcore.models.names import Turned
from vtcore.ops import mul, position_growth, rms_norm


@architecture("Llama4ForCausalLM", gguf=("llama4",))
class Llama4(Mixture):
    interleaved: ClassVar[bool] = True
    score: ClassVar[str] = "sigmoid"
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, "interleave_moe_layer_step": "decoder_sparse_step"}
    defaults: ClassVar[Json] = Mixture.defaults | {
        "norm_topk_prob": False, "rms_norm_eps": 1e-5, "rope_theta": 5e5, "attention_chunk_size": 8192, "no_rope_layer_interval": 4,
        "use_qk_norm": True, "attn_temperature_tuning": True, "floor_scale": 8192, "attn_scale": 0.1,
    }  # fmt: skip
    names: ClassVar[Names] = Llama.names | {
        **{n: f"feed_forward.{n}" for n in ("gate_proj", "up_proj", "down_proj", "router")},
        **shared("feed_forward.shared_expert"),
        "experts_gate": StoredExperts("feed_forward.experts.gate_up_proj", Turned(GATE)),
        "experts_up": StoredExperts("feed_forward.experts.gate_up_proj", Turned(UP)),
        "experts_down": StoredExperts("feed_forward.experts.down_proj", Turned()),
    }

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        every, layers = f.integer("no_rope_layer_interval"), f.integer("num_hidden_layers", high=1024)
        if raw.get("no_rope_layers") is not None:
            f.switches("no_rope_layers", layers)
        turns = raw.get("no_rope_layers") or [int((i + 1) % every > 0) for i in range(layers)]
        kinds = ["chunked_attention" if t else "full_attention" for t in turns]
        return super().read_config({"layer_types": kinds} | raw | {"no_rope_layers": turns}, max_model_len, **source)

    def layer_config(self, index: int) -> ModelConfig:
        c = super().layer_config(index)
        return c if c.no_rope_layers[index] else replace(c, rope=None)

    def rotate(self, w: Layer, x: Array, step: Step) -> Array:
        x, c = super().rotate(w, x, step), w.config
        return rms_norm(x, None, c.eps) if c.rope and c.use_qk_norm else x

    def attention(self, w: Layer, q: Array, k: Array, v: Array, step: Step, **extra: Any) -> Array:
        c = w.config
        if not c.rope and c.attn_temperature_tuning:
            q = mul(q, position_growth(step.batch.positions, c.floor_scale, c.attn_scale, 1).reshape(q.shape[0], 1, 1))
        return super().attention(w, q, k, v, step, **extra)

    def experts(self, w: Layer, x: Array, weights: Array, ids: Array, act: str = "", **extra: Any) -> Array:
        return super().experts(w, x, weights, ids, act, weigh_input=True, **extra)
