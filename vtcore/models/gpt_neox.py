"""GPT-NeoX: LayerNorm, biases and a plain GELU MLP, beside attention or after it; a quarter of each head turns."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Decoder, Names, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import GROUPED, qkv
from vtcore.models.parallel import TwoNorms
from vtcore.models.plain import Plain


@architecture("GPTNeoXForCausalLM", gguf=("gptneox",))
class GPTNeoX(Plain):
    words: ClassVar[Mapping[str, str]] = {"rotary_pct": "partial_rotary_factor", "rotary_emb_base": "rope_theta"}
    defaults: ClassVar[Json] = Plain.defaults | {"hidden_act": "gelu", "partial_rotary_factor": 0.25, "attention_bias": True}
    prefix: ClassVar[str] = "gpt_neox.layers.{}."
    top: ClassVar[Names] = {"embed_tokens": "gpt_neox.embed_in", "norm": "gpt_neox.final_layer_norm", "lm_head": "embed_out"}
    names: ClassVar[Names] = qkv("attention.query_key_value", GROUPED) | {
        "o_proj": "attention.dense", "up_proj": "mlp.dense_h_to_4h", "down_proj": "mlp.dense_4h_to_h",
    }  # fmt: skip

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        return GPTNeoXParallel if raw.get("use_parallel_residual", True) else cls


class GPTNeoXParallel(TwoNorms, GPTNeoX):
    """The usual one."""
