"""OPT: GPT 2 with positions that begin at two, and a ReLU. 350M: a norm after each part, no last one, and narrower embeddings."""

from typing import ClassVar

from vtcore.models.decoder import Array, Decoder, Layer, Names, Rows, Step, Stored, architecture
from vtcore.models.fields import Json
from vtcore.models.llama import Llama
from vtcore.models.positions import Placed
from vtcore.ops import add


@architecture("OPTForCausalLM")
class OPT(Placed):
    defaults: ClassVar[Json] = Placed.defaults | {"activation_function": "relu", "attention_bias": True}
    only: ClassVar[Json] = {"enable_bias": True, "layer_norm_elementwise_affine": True, "_remove_final_layer_norm": False}
    prefix: ClassVar[str] = "model.decoder.layers.{}."
    top: ClassVar[Names] = Decoder.top | {
        **{n: f"model.decoder.{n}" for n in ("embed_tokens", "project_in", "project_out")}, "norm": "model.decoder.final_layer_norm",
        "embed_positions": Stored("model.decoder.embed_positions", Rows(lambda rows, c: rows[2:])),
    }  # fmt: skip
    names: ClassVar[Names] = Llama.names | {
        "o_proj": "self_attn.out_proj", "up_proj": "fc1", "down_proj": "fc2",
        "input_layernorm": "self_attn_layer_norm", "post_attention_layernorm": "final_layer_norm",
    }  # fmt: skip

    @classmethod
    def variant(cls, raw: Json) -> type[Decoder]:
        return cls if raw.get("do_layer_norm_before", True) else OPT350M


class OPT350M(OPT):
    def placed(self, x: Array, step: Step) -> Array:
        return super().placed(self.top_weights.project_in(x), step)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = self.norm(add(x, self.attend(w, x, step)), w.input_layernorm)
        return self.norm(add(x, self.mlp(w, x, step)), w.post_attention_layernorm)

    def finish(self, x: Array) -> Array:
        return self.top_weights.project_out(x)
