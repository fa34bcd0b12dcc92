"""MPT: ALiBi instead of positions, LayerNorm without biases, a plain GELU MLP, queries, keys and values kept within limits."""

from collections.abc import Mapping
from typing import Any, ClassVar

from vtcore.models.alibi import Alibi
from vtcore.models.decoder import ModelConfig, Names, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.fused import STACKED, qkv
from vtcore.models.olmo import Clamped


@architecture("MptForCausalLM", "MPTForCausalLM", gguf=("mpt",))
class MPT(Clamped, Alibi):
    words: ClassVar[Mapping[str, str]] = {
        "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads", "max_seq_len": "max_position_embeddings",
        "softmax_scale": "attention_multiplier",
    }  # fmt: skip
    defaults: ClassVar[Json] = Alibi.defaults | {"hidden_act": "gelu"}
    only: ClassVar[Json] = {"alibi": True, "qk_ln": False, "prefix_lm": False, "no_bias": True, "attn_type": "multihead_attention"}
    prefix: ClassVar[str] = "transformer.blocks.{}."
    top: ClassVar[Names] = {"embed_tokens": "transformer.wte", "norm": "transformer.norm_f", "lm_head": "lm_head"}
    names: ClassVar[Names] = qkv("attn.Wqkv", STACKED) | {
        "o_proj": "attn.out_proj", "up_proj": "ffn.up_proj", "down_proj": "ffn.down_proj",
        "input_layernorm": "norm_1", "post_attention_layernorm": "norm_2",
    }  # fmt: skip

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        inner = Fields(raw, source.get("file", "config.json")).mapping("attn_config")
        keys = ("alibi", "alibi_bias_max", "qk_ln", "prefix_lm", "attn_type", "clip_qkv", "softmax_scale")
        return super().read_config(raw | {n: inner[n] for n in keys if n in inner}, max_model_len, **source)
