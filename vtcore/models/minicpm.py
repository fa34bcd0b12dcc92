"""MiniCPM: Granite, whose multipliers follow from numbers with other names."""

from typing import Any, ClassVar

from vtcore.models.decoder import ModelConfig, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.granite import Granite


@architecture("MiniCPMForCausalLM", gguf=("minicpm",))
class MiniCPM(Granite):
    defaults: ClassVar[Json] = Granite.defaults | {"tie_word_embeddings": True}
    only: ClassVar[Json] = {"num_experts": 0}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        own: Json = {"attention_multiplier": None}
        if f.has("scale_emb"):
            own["embedding_multiplier"] = f.number("scale_emb", above=True)
        if f.has("scale_depth"):
            own["residual_multiplier"] = f.number("scale_depth", above=True) / f.integer("num_hidden_layers") ** 0.5
        if f.has("dim_model_base"):
            own["logits_scaling"] = f.integer("hidden_size") / f.integer("dim_model_base")
        return super().read_config(raw | own, max_model_len, **source)
