"""Qwen 3.5 MoE: Qwen 3.5, with experts in place of the MLP, and a shared one behind a gate. Qwen 3 Next: packed by heads of keys."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from vtcore.models.activations import SILU
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Rows, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.mixture import ROUTED, ROUTING, Mixture, shared
from vtcore.models.names import Numbers
from vtcore.models.qwen3_5 import Qwen35
from vtcore.models.qwen_moe import SWITCH
from vtcore.op import Op
from vtcore.ops import sigmoid_mul


@architecture("Qwen3_5MoeForCausalLM", gguf=("qwen35moe",))
class Qwen35Moe(Mixture, Qwen35):
    acts: ClassVar[Mapping[str, Op]] = SILU
    defaults: ClassVar[Json] = Qwen35.defaults | ROUTING
    words: ClassVar[Mapping[str, str]] = {**Mixture.words, **Qwen35.words}
    names: ClassVar[Names] = Qwen35.names | ROUTED | shared("mlp.shared_expert") | {"shared_switch": SWITCH}

    def shared(self, w: Layer, x: Array) -> Array:
        return sigmoid_mul(super().shared(w, x), w.shared_switch(x))


def _parts(rows: Numbers, c: ModelConfig) -> list[Numbers]:
    """For each head of keys its query, its key, then the values and gates that it serves."""
    few, k = c.linear_num_key_heads, c.linear_key_head_dim
    own = c.linear_num_value_heads // few * c.linear_value_head_dim
    return [p.reshape(-1) for p in np.split(rows.reshape(few, -1), [k, 2 * k, 2 * k + own], axis=1)]


def _half(part: int) -> Rows:
    """Of in_proj_ba: for each head of keys the betas, then the decays, of those that it serves."""
    return Rows(lambda rows, c: rows.reshape(c.linear_num_key_heads, 2, -1)[:, part].reshape(-1))


@architecture("Qwen3NextForCausalLM", gguf=("qwen3next",))
class Qwen3Next(Qwen35Moe):
    names: ClassVar[Names] = Qwen35Moe.names | {
        "in_proj_qkv": Stored("linear_attn.in_proj_qkvz", Rows(lambda rows, c: np.concatenate(_parts(rows, c)[:3]))),
        "in_proj_z": Stored("linear_attn.in_proj_qkvz", Rows(lambda rows, c: _parts(rows, c)[3])),
        "in_proj_b": Stored("linear_attn.in_proj_ba", _half(0)),
        "in_proj_a": Stored("linear_attn.in_proj_ba", _half(1)),
    }
