"""Bamba: Llama in which most layers scan instead of attending."""

from typing import Any, ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.selective import SelectiveScan, scan_names


@architecture("BambaForCausalLM", within="granitehybrid")
class Bamba(SelectiveScan, Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"partial_rotary_factor": 0.5}
    top: ClassVar[Names] = Decoder.top | {"norm": "model.final_layernorm"}
    names: ClassVar[Names] = (
        Llama.names
        | scan_names("mamba")
        | {"post_attention_layernorm": "pre_ff_layernorm"}
        | {n: f"feed_forward.{n}" for n in ("gate_proj", "up_proj", "down_proj")}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"))
        attending = f.indices("attn_layer_indices") or []
        kinds = ["full_attention" if i in attending else "mamba" for i in range(f.integer("num_hidden_layers", high=1024))]
        return super().read_config(raw | {"layer_types": kinds}, max_model_len, **source)

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        return self.recur(w, x, step) if w.config.kind == "mamba" else super().attend(w, x, step)
