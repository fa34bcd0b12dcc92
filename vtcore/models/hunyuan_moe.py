"""HunYuan MoE: HunYuan, with experts in place of the MLP, beside a shared one."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.hunyuan import HunYuan
from vtcore.models.mixture import ROUTING, Mixture, each, shared


@architecture("HunYuanMoEV1ForCausalLM", gguf=("hunyuan-moe",))
class HunYuanMoe(Mixture, HunYuan):
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, "moe_topk": "num_experts_per_tok"}
    defaults: ClassVar[Json] = HunYuan.defaults | ROUTING
    names: ClassVar[Names] = HunYuan.names | each("mlp.experts.{}") | shared("mlp.shared_mlp") | {"router": "mlp.gate.wg"}
