"""Scaled values: Llama, whose values are multiplied by a number of config.json before they are kept."""

from typing import ClassVar

from vtcore.models.decoder import Array, Layer, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.ops import scale


@architecture("ScaledValuesForCausalLM")
class ScaledValues(Llama):
    """`value_scale` may be left out: then it is 1."""

    defaults: ClassVar[Json] = Llama.defaults | {"value_scale": 1.0}

    def project(self, w: Layer, x: Array) -> tuple[Array, Array, Array]:
        q, k, v = super().project(w, x)
        return q, k, scale(v, self.config.value_scale)
