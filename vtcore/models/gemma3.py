"""Gemma 3: Gemma 2 without soft caps, with queries and keys normalised as in Qwen 3; every sixth layer sees all, with a rope of its own."""

from typing import ClassVar

from vtcore.models.decoder import Names, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.gemma import PLUS_ONE
from vtcore.models.gemma2 import Gemma2
from vtcore.models.qwen3 import Qwen3


@architecture("Gemma3ForCausalLM", gguf=("gemma3",))
class Gemma3(Gemma2, Qwen3):
    defaults: ClassVar[Json] = Gemma2.defaults | {
        "attn_logit_softcapping": None, "final_logit_softcapping": None, "sliding_window_pattern": 6,
        "rope_theta": 1e6, "rope_local_base_freq": 1e4,
    }  # fmt: skip
    only: ClassVar[Json] = {"use_bidirectional_attention": False}
    names: ClassVar[Names] = Gemma2.names | {n: Stored(f"self_attn.{n}", PLUS_ONE) for n in ("q_norm", "k_norm")}
