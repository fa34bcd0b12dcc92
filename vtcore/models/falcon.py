"""Falcon: LayerNorm and a plain GELU MLP beside attention, after one norm (7B) or a norm for each (40B); many queries to few keys."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import GROUPED, qkv
from vtcore.models.parallel import OneNorm
from vtcore.models.plain import Plain
from vtcore.ops import add


@architecture("FalconForCausalLM", gguf=("falcon",))
class Falcon(OneNorm, Plain):
    words: ClassVar[Mapping[str, str]] = {"activation": "hidden_act", "bias": "attention_bias", "num_kv_heads": "num_key_value_heads"}
    defaults: ClassVar[Json] = Plain.defaults | {"hidden_act": "gelu", "tie_word_embeddings": True}
    only: ClassVar[Json] = {"alibi": False, "parallel_attn": True}
    prefix: ClassVar[str] = "transformer.h.{}."
    top: ClassVar[Names] = {"embed_tokens": "transformer.word_embeddings", "norm": "transformer.ln_f", "lm_head": "lm_head"}
    names: ClassVar[Names] = qkv("self_attention.query_key_value", GROUPED) | {
        "o_proj": "self_attention.dense", "up_proj": "mlp.dense_h_to_4h", "down_proj": "mlp.dense_4h_to_h",
    }  # fmt: skip

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        norms = raw.get("num_ln_in_parallel_attn") or (2 if raw.get("new_decoder_architecture") else 1)
        return FalconTwoNorms if norms == 2 else cls

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        grouped = raw.get("new_decoder_architecture") or "num_key_value_heads" in raw
        one = {"num_kv_heads": 1} if raw.get("multi_query", True) and not grouped else {}
        return super().read_config(raw | one, max_model_len, **source)


class FalconTwoNorms(Falcon):
    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        a = self.attend(w, self.norm(x, w.ln_attn), step)
        return add(x, add(a, self.mlp(w, self.norm(x, w.ln_mlp), step)))
