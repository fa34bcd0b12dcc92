"""HunYuan MoE: HunYuan, with experts in place of the MLP, beside a shared one."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vtcore.models.decoder import ModelConfig, Names, architecture
from vtcore.models.fields import Json
from vtcore.models.hunyuan import HunYuan
from vtcore.models.mixture import ROUTING, Mixture, each, shared


@architecture("HunYuanMoEV1ForCausalLM", gguf=("hunyuan-moe",))
class HunYuanMoe(Mixture, HunYuan):
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, "moe_topk": "num_experts_per_tok"}
    defaults: ClassVar[Json] = HunYuan.defaults | ROUTING
    names: ClassVar[Names] = HunYuan.names | each("mlp.experts.{}") | shared("mlp.shared_mlp") | {"router": "mlp.gate.wg"}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        """What may be said for each layer must be the same for all."""
        given = raw.get("moe_topk")
        alike = isinstance(given, list) and given and all(n == given[0] for n in given)
        return super().read_config(raw | {"moe_topk": given[0]} if alike and given else raw, max_model_len, **source)
