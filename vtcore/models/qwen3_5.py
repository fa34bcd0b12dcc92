"""Qwen 3.5: gated delta nets, and in every fourth layer Qwen 3 attention with a gate on its output; norms stored minus one."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Rows, Stored, architecture, flat
from vtcore.models.delta import DeltaNet
from vtcore.models.fields import Fields, Json
from vtcore.models.gemma import PLUS_ONE
from vtcore.models.qwen3 import Qwen3
from vtcore.ops import sigmoid_mul

QUERY = Rows(lambda rows, c: rows.reshape(-1, 2, c.head_dim)[:, 0].reshape(-1))
GATE = Rows(lambda rows, c: rows.reshape(-1, 2, c.head_dim)[:, 1].reshape(-1))


@architecture("Qwen3_5ForCausalLM", gguf=("qwen35",))
class Qwen35(DeltaNet, Qwen3):
    defaults: ClassVar[Json] = Qwen3.defaults | {"head_dim": 256, "partial_rotary_factor": 0.25, "full_attention_interval": 4}
    words: ClassVar[Mapping[str, str]] = {"mtp_num_hidden_layers": "num_nextn_predict_layers"}
    top: ClassVar[Names] = Decoder.top | {"norm": Stored("model.norm", PLUS_ONE)}
    names: ClassVar[Names] = (
        Qwen3.names
        | DeltaNet.delta_names
        | {n: Stored(n, PLUS_ONE) for n in ("input_layernorm", "post_attention_layernorm")}
        | {n: Stored(f"self_attn.{n}", PLUS_ONE) for n in ("q_norm", "k_norm")}
        | {"q_proj": Stored("self_attn.q_proj", QUERY, both=True), "gate": Stored("self_attn.q_proj", GATE, both=True)}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"))
        every, layers = f.integer("full_attention_interval"), f.integer("num_hidden_layers", high=1024)
        kinds = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(layers)]
        return super().read_config({"layer_types": kinds} | raw, max_model_len, **source)

    def output(self, w: Layer, x: Array, out: Array) -> Array:
        return w.o_proj(sigmoid_mul(flat(out), w.gate(x)))
