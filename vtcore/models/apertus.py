"""Apertus: Qwen 3, with an MLP of xIELU that has no gate, four numbers of it in each layer."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vtcore.models.decoder import Array, Layer, Names, Step, Stored, Values, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.qwen3 import Qwen3
from vtcore.op import Op
from vtcore.ops import xielu


def _positive(a: Any) -> Any:
    """softplus: how the two numbers are kept, so that they stay above zero."""
    return np.logaddexp(np.float64(0), a).astype(np.float32).reshape(1)


ONE = Values(lambda a, c: a.reshape(1))


@architecture("ApertusForCausalLM", gguf=("apertus",))
class Apertus(Qwen3):
    acts: ClassVar[Mapping[str, Op]] = {"xielu": xielu}
    defaults: ClassVar[Json] = Llama.defaults | {"hidden_act": "xielu", "rms_norm_eps": 1e-5, "rope_theta": 12e6}
    names: ClassVar[Names] = Llama.names | {
        "rise": Stored("mlp.act_fn.alpha_p", Values(lambda a, c: _positive(a))),
        "fall": Stored("mlp.act_fn.alpha_n", Values(lambda a, c: _positive(a))),
        "slope": Stored("mlp.act_fn.beta", ONE),
        "eps": Stored("mlp.act_fn.eps", ONE),
        "input_layernorm": "attention_layernorm",
        "post_attention_layernorm": "feedforward_layernorm",
    }

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        return w.down_proj(xielu(w.up_proj(x), w.rise, w.fall, w.slope, w.eps))
