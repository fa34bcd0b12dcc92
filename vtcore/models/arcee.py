"""Arcee: Llama, with an MLP of squared ReLU that has no gate."""

from typing import ClassVar

from vtcore.models.decoder import architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.plain import Ungated


@architecture("ArceeForCausalLM", gguf=("arcee",))
class Arcee(Ungated):
    defaults: ClassVar[Json] = Llama.defaults | {"hidden_act": "relu2", "rms_norm_eps": 1e-5}
