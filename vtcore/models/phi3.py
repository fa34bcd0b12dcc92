"""Phi 3: Llama, with q, k, v stored as one matrix, and gate and up as another."""

from itertools import accumulate
from typing import ClassVar

from vtcore.models.decoder import ModelConfig, Names, Rows, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.names import Numbers


def _qkv(part: int) -> Rows:
    def pick(rows: Numbers, c: ModelConfig) -> Numbers:
        edges = [0, *accumulate(n * c.head_dim for n in (c.heads, c.kv_heads, c.kv_heads))]
        return rows[edges[part] : edges[part + 1]]

    return Rows(pick)


GATE, UP = Rows(lambda rows, c: rows[: rows.size // 2]), Rows(lambda rows, c: rows[rows.size // 2 :])


@architecture("Phi3ForCausalLM", gguf=("phi3",))
class Phi3(Llama):
    defaults: ClassVar[Json] = Llama.defaults | {"use_sliding_window": True, "rms_norm_eps": 1e-5}
    names: ClassVar[Names] = Llama.names | {
        **{n: Stored("self_attn.qkv_proj", _qkv(i), both=True) for i, n in enumerate(("q_proj", "k_proj", "v_proj"))},
        "gate_proj": Stored("mlp.gate_up_proj", GATE, both=True),
        "up_proj": Stored("mlp.gate_up_proj", UP, both=True),
    }
