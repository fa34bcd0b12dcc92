"""ERNIE 4.5 MoE: ERNIE 4.5, with experts chosen with a bias beside shared ones, in the layers from one number to another."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vtcore.models.decoder import ModelConfig, Names, architecture
from vtcore.models.ernie4_5 import Ernie45
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import BIASED, ROUTING, Mixture


@architecture("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM", gguf=("ernie4_5-moe",))
class Ernie45Moe(Mixture, Ernie45):
    words: ClassVar[Mapping[str, str]] = {**Ernie45.words, "moe_k": "num_experts_per_tok", "moe_num_experts": "num_experts"}
    defaults: ClassVar[Json] = Ernie45.defaults | ROUTING
    names: ClassVar[Names] = Llama.names | BIASED | {"router_bias": "mlp.moe_statics.e_score_correction_bias"}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        if "mlp_layer_types" in raw:
            return super().read_config(raw, max_model_len, **source)
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        layers, first = (
            f.integer("num_hidden_layers", high=1024),
            f.integer("moe_layer_start_index", "first_k_dense_replace", default=0, low=0),
        )
        every, last = (
            f.integer("moe_layer_interval", "decoder_sparse_step", default=1),
            f.integer("moe_layer_end_index", default=-1, low=-1),
        )
        inside = range(first, (layers if last < 0 else last + 1))
        kinds = ["sparse" if i in inside and (i + 1) % every == 0 else "dense" for i in range(layers)]
        return super().read_config(raw | {"mlp_layer_types": kinds}, max_model_len, **source)
