"""Mixtral: Llama (or Mistral, with a window), with experts in place of the MLP."""

from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import Mixture, each

BLOCK: Names = {"router": "block_sparse_moe.gate", **each("block_sparse_moe.experts.{}", ("w1", "w3", "w2"))}


@architecture("MixtralForCausalLM", within="llama")
class Mixtral(Mixture):
    defaults: ClassVar[Json] = Mixture.defaults | {"use_sliding_window": True, "rms_norm_eps": 1e-5, "rope_theta": 1e6}
    names: ClassVar[Names] = Llama.names | BLOCK
