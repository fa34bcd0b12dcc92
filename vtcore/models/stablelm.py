"""StableLM: Llama with LayerNorm, of which a quarter of each head turns. 12B: one norm before both parts, and q and k normalised."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Decoder, Names, architecture
from vtcore.models.fields import Json
from vtcore.models.head_norm import HeadNormed
from vtcore.models.llama import Llama
from vtcore.models.parallel import OneNorm
from vtcore.models.plain import LayerNormed


@architecture("StableLmForCausalLM", "StableLMEpochForCausalLM", gguf=("stablelm",))
class StableLM(HeadNormed, LayerNormed):
    words: ClassVar[Mapping[str, str]] = {"use_qkv_bias": "qkv_bias", "rope_pct": "partial_rotary_factor"}
    defaults: ClassVar[Json] = LayerNormed.defaults | {"partial_rotary_factor": 0.25}
    names: ClassVar[Names] = Llama.names | {f"{n}_norm": f"self_attn.{n}_layernorm.norms.{{}}" for n in "qk"}

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        return StableLMParallel if raw.get("use_parallel_residual") else cls


class StableLMParallel(OneNorm, StableLM):
    """12B."""
