"""Jamba: Llama without a rope, in which most layers are Mamba's, with norms inside, and every second one has experts."""

from typing import Any, ClassVar

from vtcore.models.channels import ChannelScan, channel_names
from vtcore.models.decoder import Array, Decoder, Layer, ModelConfig, Names, Step, architecture
from vtcore.models.fields import Fields, Json
from vtcore.models.llama import Llama
from vtcore.models.mixture import ROUTING, Mixture, each


@architecture("JambaForCausalLM", gguf=("jamba",))
class Jamba(ChannelScan, Mixture):
    defaults: ClassVar[Json] = ROUTING | {"rms_norm_eps": 1e-6, "norm_topk_prob": False, "mamba_expand": 2, "num_experts": 16}
    top: ClassVar[Names] = Decoder.top | {"norm": "model.final_layernorm"}
    names: ClassVar[Names] = (
        Llama.names
        | channel_names("mamba")
        | {f"{n}_norm": f"mamba.{n}_layernorm" for n in ("dt", "b", "c")}
        | {"post_attention_layernorm": "pre_ff_layernorm", "router": "feed_forward.router", **each("feed_forward.experts.{}")}
        | {n: f"feed_forward.{n}" for n in ("gate_proj", "up_proj", "down_proj")}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        """Every period-th layer from the offset on attends, and every period-th of another kind has experts."""
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        layers, made = range(f.integer("num_hidden_layers", high=1024)), dict[str, Any](raw)
        for key, name, (regular, other) in (
            ("attn", "layer_types", ("full_attention", "mamba")),
            ("expert", "mlp_layer_types", ("sparse", "dense")),
        ):
            if f.has(f"{key}_layer_period"):
                period, offset = f.integer(f"{key}_layer_period"), f.integer(f"{key}_layer_offset", low=0)
                made[name] = [regular if (i - offset) % period == 0 else other for i in layers]
        if f.integer("num_experts") == 1:
            made["mlp_layer_types"] = ["dense"] * len(layers)
        return super().read_config(made | {"rope_theta": None, "rope_parameters": None}, max_model_len, **source)

    def sizes(self, c: ModelConfig) -> tuple[int, int, int]:
        return c.mamba_expand * c.hidden, c.mamba_d_state, c.mamba_d_conv

    def attend(self, w: Layer, x: Array, step: Step) -> Array:
        return self.recur(w, x, step) if w.config.kind == "mamba" else super().attend(w, x, step)

    def normed(self, w: Layer, dt: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
        return self.norm(dt, w.dt_norm), self.norm(b, w.b_norm), self.norm(c, w.c_norm)
