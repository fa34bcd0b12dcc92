"""MiniMax M2: Llama, with q and k normalised whole, a part of each head turning, and experts chosen by sigmoid and bias."""

from typing import Any, ClassVar

from vtcore.models.decoder import ModelConfig, Names, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.mixtral import BLOCK
from vtcore.models.mixture import SIGMOID, Mixture
from vtcore.models.olmo2 import Olmo2
from vtcore.models.rope_config import turning


@architecture("MiniMaxM2ForCausalLM", gguf=("minimax-m2",))
class MiniMaxM2(Mixture):
    score: ClassVar[str] = "sigmoid"
    only: ClassVar[Json] = SIGMOID
    defaults: ClassVar[Json] = Mixture.defaults | {"head_dim": 128}
    names: ClassVar[Names] = Llama.names | BLOCK | {"router_bias": "block_sparse_moe.e_score_correction_bias"}
    project = Olmo2.project

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        own = {"partial_rotary_factor": turning(f.integer("rotary_dim"), f.integer("head_dim"))} if f.has("rotary_dim") else {}
        return super().read_config(own | raw, max_model_len, **source)
