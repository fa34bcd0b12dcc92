"""dots.llm1: Qwen 3, with experts chosen by sigmoid and bias beside a shared one; a part of the first layers dense."""

from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import BIASED, ROUTING, SIGMOID, Mixture
from vtcore.models.qwen3 import Qwen3


@architecture("Dots1ForCausalLM", gguf=("dots1",))
class Dots1(Mixture, Qwen3):
    score: ClassVar[str] = "sigmoid"
    only: ClassVar[Json] = SIGMOID
    defaults: ClassVar[Json] = Qwen3.defaults | ROUTING | {"max_window_layers": 62}
    names: ClassVar[Names] = Llama.names | BIASED
