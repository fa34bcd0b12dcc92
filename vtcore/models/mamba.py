"""Mamba: one scan a block, nothing else, with a state for every channel."""

from typing import Any, ClassVar

from vtcore.models.channels import ChannelScan, channel_names
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Param, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.mamba2 import Mamba2, all_of
from vtcore.ops import add, rms_norm


@architecture("MambaForCausalLM", gguf=("mamba",))
class Mamba(ChannelScan):
    prefix: ClassVar[str] = Mamba2.prefix
    top: ClassVar[Names] = Mamba2.top
    names: ClassVar[Names] = channel_names("mixer") | {"input_layernorm": "norm"}
    defaults: ClassVar[Json] = {"layer_norm_epsilon": 1e-5, "state_size": 16, "conv_kernel": 4, "tie_word_embeddings": True}
    only: ClassVar[Json] = {"hidden_act": "silu"}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        return super().read_config(raw | all_of("mamba", raw), max_model_len, **source)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        return add(x, self.recur(w, self.norm(x, w.input_layernorm), step))

    def norm(self, x: Array, p: Param) -> Array:
        return rms_norm(x, p.weight, self.config.eps)
