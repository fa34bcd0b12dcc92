"""DeepSeek 2 and 3: latent attention; experts that are chosen from the best groups, beside shared ones, after some dense layers."""

from typing import Any, ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.latent import LatentAttention
from vtcore.models.llama import Llama
from vtcore.models.mixture import BIASED, ROUTED, Mixture, shared
from vtcore.ops import rotate


@architecture("DeepseekV2ForCausalLM", gguf=("deepseek2",))
class DeepseekV2(LatentAttention, Mixture):
    """Softmax scores; a group is as good as its best expert."""

    interleaved: ClassVar[bool] = True
    defaults: ClassVar[Json] = Mixture.defaults | {"norm_topk_prob": False}
    only: ClassVar[Json] = {"scoring_func": "softmax", "norm_topk_prob": False, "moe_layer_freq": 1}
    names: ClassVar[Names] = Llama.names | ROUTED | shared("mlp.shared_experts") | LatentAttention.latent_names

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        """GGUF has one name for both."""
        return DeepseekV3 if raw.get("scoring_func") == "sigmoid" else cls

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        grouped = f.word("topk_method", default="greedy", allowed=("greedy", "group_limited_greedy")) != "greedy"
        return super().read_config(raw if grouped else raw | {"n_group": 1, "topk_group": 1}, max_model_len, **source)


@architecture("DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM", within="deepseek2")
class DeepseekV3(LatentAttention, Mixture):
    """Sigmoid scores, with a bias for the choice; a group is as good as its best two experts."""

    interleaved: ClassVar[bool] = True
    score: ClassVar[str] = "sigmoid"
    only: ClassVar[Json] = {"scoring_func": "sigmoid", "topk_method": "noaux_tc", "moe_layer_freq": 1}
    names: ClassVar[Names] = Llama.names | BIASED | LatentAttention.latent_names

    def rotate(self, w: Layer, x: Array, step: Step) -> Array:
        pairs = w.config.rest.get("rope_interleave", True)
        return rotate(x, step.angles[w.config.kind], pairs) if w.config.rope else x
