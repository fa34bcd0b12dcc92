"""GPT-J: one LayerNorm before attention and a plain GELU MLP side by side; a part of each head turns in pairs."""

from typing import Any, ClassVar

from vtcore.models.decoder import ModelConfig, Names, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.parallel import OneNorm
from vtcore.models.plain import Plain
from vtcore.models.rope_config import turning


@architecture("GPTJForCausalLM", gguf=("gptj",))
class GPTJ(OneNorm, Plain):
    interleaved: ClassVar[bool] = True
    defaults: ClassVar[Json] = Plain.defaults | {"activation_function": "gelu_new", "rotary_dim": 64}
    prefix: ClassVar[str] = "transformer.h.{}."
    top: ClassVar[Names] = {"embed_tokens": "transformer.wte", "norm": "transformer.ln_f", "lm_head": "lm_head"}
    names: ClassVar[Names] = {
        **{n: f"attn.{n}" for n in ("q_proj", "k_proj", "v_proj")},
        "o_proj": "attn.out_proj", "up_proj": "mlp.fc_in", "down_proj": "mlp.fc_out", "input_layernorm": "ln_1",
    }  # fmt: skip

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        width = f.integer("n_embd", "hidden_size") // f.integer("n_head", "num_attention_heads")
        turned = {"partial_rotary_factor": turning(f.integer("rotary_dim", high=width), width)}
        return super().read_config(raw | turned, max_model_len, **source)
