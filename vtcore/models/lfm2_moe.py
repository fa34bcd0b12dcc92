"""LFM 2 MoE: LFM 2, with experts in place of the MLP behind the first layers, chosen by sigmoid and bias."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.lfm2 import Lfm2
from vtcore.models.mixture import ROUTING, Mixture, each


@architecture("Lfm2MoeForCausalLM", gguf=("lfm2moe",))
class Lfm2Moe(Lfm2, Mixture):
    score: ClassVar[str] = "sigmoid"
    defaults: ClassVar[Json] = Lfm2.defaults | ROUTING | {"num_dense_layers": 2}
    only: ClassVar[Json] = {"use_expert_bias": True}
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, "num_dense_layers": "first_k_dense_replace"}
    names: ClassVar[Names] = Lfm2.names | {
        **each("feed_forward.experts.{}", ("w1", "w3", "w2")),
        **{"router": "feed_forward.gate", "router_bias": "feed_forward.expert_bias"},
    }
