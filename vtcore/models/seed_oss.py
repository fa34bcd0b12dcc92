"""Seed OSS: Llama, with biases on q, k and v."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import architecture
from vtcore.models.llama import Llama


@architecture("SeedOssForCausalLM", gguf=("seed_oss",))
class SeedOss(Llama):
    words: ClassVar[Mapping[str, str]] = {"attention_bias": "qkv_bias"}  # o_proj has a flag of its own
