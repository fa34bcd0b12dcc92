"""InternLM 2: Llama under other names, with q, k and v in one matrix, head of keys by head of keys."""

from collections.abc import Mapping
from typing import ClassVar

from vtcore.models.decoder import Names, architecture
from vtcore.models.fused import GROUPED, qkv
from vtcore.models.llama import Llama


@architecture("InternLM2ForCausalLM", gguf=("internlm2",))
class InternLM2(Llama):
    words: ClassVar[Mapping[str, str]] = {"bias": "attention_bias"}
    top: ClassVar[Names] = {"embed_tokens": "model.tok_embeddings", "norm": "model.norm", "lm_head": "output"}
    names: ClassVar[Names] = qkv("attention.wqkv", GROUPED) | {
        "o_proj": "attention.wo",
        "gate_proj": "feed_forward.w1",
        "up_proj": "feed_forward.w3",
        "down_proj": "feed_forward.w2",
        "input_layernorm": "attention_norm",
        "post_attention_layernorm": "ffn_norm",
    }
