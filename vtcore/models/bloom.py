"""BLOOM: ALiBi instead of positions, LayerNorm (one after the embedding, too), biases, a plain GELU MLP."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.alibi import Alibi
from vtcore.models.decoder import Array, Names, Step, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import GROUPED, qkv


@architecture("BloomForCausalLM", gguf=("bloom",))
class Bloom(Alibi):
    words: ClassVar[Mapping[str, str]] = {"seq_length": "max_position_embeddings"}
    defaults: ClassVar[Json] = Alibi.defaults | {"hidden_act": "gelu_new", "attention_bias": True}
    only: ClassVar[Json] = {"apply_residual_connection_post_layernorm": False}
    prefix: ClassVar[str] = "transformer.h.{}."
    top: ClassVar[Names] = {
        "embed_tokens": "transformer.word_embeddings", "embed_norm": "transformer.word_embeddings_layernorm",
        "norm": "transformer.ln_f", "lm_head": "lm_head",
    }  # fmt: skip
    names: ClassVar[Names] = qkv("self_attention.query_key_value", GROUPED) | {
        "o_proj": "self_attention.dense", "up_proj": "mlp.dense_h_to_4h", "down_proj": "mlp.dense_4h_to_h",
    }  # fmt: skip

    def embed_tokens(self, tokens: Array, step: Step) -> Array:
        return self.norm(super().embed_tokens(tokens, step), self.top_weights.embed_norm)
