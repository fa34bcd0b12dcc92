"""GPT 2: learned positions, LayerNorm, biases, a plain GELU MLP, and matrices stored with their input axis first."""

from typing import ClassVar

from vtcore.models.decoder import Names, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.fused import STACKED, qkv
from vtcore.models.names import Turned
from vtcore.models.positions import Placed


@architecture("GPT2LMHeadModel", gguf=("gpt2",))
class GPT2(Placed):
    defaults: ClassVar[Json] = Placed.defaults | {"activation_function": "gelu_new", "attention_bias": True}
    only: ClassVar[Json] = {"scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "add_cross_attention": False}
    prefix: ClassVar[str] = "transformer.h.{}."
    top: ClassVar[Names] = {
        "embed_tokens": "transformer.wte", "embed_positions": "transformer.wpe", "norm": "transformer.ln_f", "lm_head": "lm_head",
    }  # fmt: skip
    names: ClassVar[Names] = qkv("attn.c_attn", STACKED, turned=True) | {
        **{n: Stored(p, Turned()) for n, p in (("o_proj", "attn.c_proj"), ("up_proj", "mlp.c_fc"), ("down_proj", "mlp.c_proj"))},
        "input_layernorm": "ln_1",
        "post_attention_layernorm": "ln_2",
    }
