"""Mamba 2: one selective scan a block, nothing else."""

from typing import Any, ClassVar

from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Param, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.selective import Scan, SelectiveScan, scan_names
from vtcore.ops import add, rms_norm


@architecture("Mamba2ForCausalLM", gguf=("mamba2",))
class Mamba2(SelectiveScan):
    prefix: ClassVar[str] = "backbone.layers.{}."
    top: ClassVar[Names] = {"embed_tokens": "backbone.embeddings", "norm": "backbone.norm_f", "lm_head": "lm_head"}
    names: ClassVar[Names] = scan_names("mixer") | {"input_layernorm": "norm"}
    defaults: ClassVar[Json] = {"layer_norm_epsilon": 1e-5, "n_groups": 8, "state_size": 128, "conv_kernel": 4}
    only: ClassVar[Json] = {"hidden_act": "silu"}

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        return super().read_config(raw | all_of("mamba", raw), max_model_len, **source)

    def sizes(self, c: ModelConfig) -> Scan:
        return Scan(c.heads, c.head_dim, c.n_groups, c.state_size, c.conv_kernel)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        return add(x, self.recur(w, self.norm(x, w.input_layernorm), step))

    def norm(self, x: Array, p: Param) -> Array:
        return rms_norm(x, p.weight, self.config.eps)


def all_of(kind: str, raw: Json) -> Json:
    """Every layer of one kind; a wrong number of layers is told where it is read."""
    layers = raw.get("num_hidden_layers")
    return {"layer_types": [kind] * layers} if isinstance(layers, int) and 0 < layers <= 1024 else {}
