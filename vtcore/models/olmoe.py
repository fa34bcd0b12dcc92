"""OLMoE: Llama, with q and k normalised whole, and experts in place of the MLP, whose weights don't sum to one."""

from typing import ClassVar

from vtcore.models.decoder import architecture
from vtcore.models.fields import Json
from vtcore.models.mixture import Mixture
from vtcore.models.olmo2 import Olmo2


@architecture("OlmoeForCausalLM", gguf=("olmoe",))
class Olmoe(Mixture):
    defaults: ClassVar[Json] = Mixture.defaults | {"norm_topk_prob": False, "rms_norm_eps": 1e-5}
    only: ClassVar[Json] = {"clip_qkv": None}
    project = Olmo2.project
