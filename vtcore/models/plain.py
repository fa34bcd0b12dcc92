"""Plain parts: Llama, with an MLP that has no gate; and, as in GPT 2, with LayerNorm too."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.activations import PLAIN
from vtcore.models.decoder import Array, Layer, Param, Step
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.op import Op
from vtcore.ops import layer_norm


class Ungated(Llama):
    acts: ClassVar[Mapping[str, Op]] = PLAIN

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        return w.down_proj(self.acts[self.config.act](w.up_proj(x)))


class LayerNormed(Llama):
    defaults: ClassVar[Json] = {"rope_theta": 10000.0, "use_sliding_window": False}

    def norm(self, x: Array, p: Param) -> Array:
        return layer_norm(x, p.weight, p.bias, self.config.eps)


class Plain(Ungated, LayerNormed):
    """Both."""
