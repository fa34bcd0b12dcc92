"""Granite 4: Granite MoE with a shared expert (or that alone), in which most layers scan instead of attending."""

from typing import Any, ClassVar

from vtcore.models.bamba import Bamba
from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.granite_moe import GraniteMoeShared
from vtcore.models.selective import SelectiveScan, scan_names

KINDS = {"linear_attention": "mamba", "mamba": "mamba", "attention": "full_attention", "full_attention": "full_attention"}


@architecture("GraniteMoeHybridForCausalLM", gguf=("granitehybrid",))
class GraniteMoeHybrid(SelectiveScan, GraniteMoeShared):
    names: ClassVar[Names] = GraniteMoeShared.names | scan_names("mamba")

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        return Bamba if "attn_layer_indices" in raw else cls  # GGUF has one name for both

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        listed = f.words("layer_types", f.integer("num_hidden_layers", high=1024), KINDS) or ()
        still: Json = {} if raw.get("position_embedding_type") == "rope" else {"rope_theta": None, "rope_parameters": None}
        return super().read_config(raw | {"layer_types": [KINDS[k] for k in listed]} | still, max_model_len, **source)

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        return self.recur(w, x, step) if w.config.kind == "mamba" else super().attend(w, x, step)

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        return self.mix(w, x, step) if w.config.num_experts else self.shared(w, x)
