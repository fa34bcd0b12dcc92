"""Gemma 3n: Gemma 4's attention and embeddings for each layer, on several streams (AltUp), with a low-rank part beside attention (LAuReL);
in the first layers only the largest gates of the MLP pass."""

from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from vtcore import tensor
from vtcore.models.altup import AltUp
from vtcore.models.config import LAYERS
from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Step, Stored, architecture, flat, heads
from vtcore.models.fields import Fields, Json
from vtcore.models.per_layer import PerLayer
from vtcore.models.shared_kv import SharedKV
from vtcore.ops import add, concat, look_up, mul, over_bar, scale

SPARSE, SHARE = 10, 0.95  # how many layers are sparse, and how much, where config.json doesn't say it


@architecture("Gemma3nForCausalLM", gguf=("gemma3n",))
class Gemma3n(AltUp, PerLayer, SharedKV):
    only: ClassVar[Json] = {"hidden_activation": "gelu_pytorch_tanh"}
    defaults: ClassVar[Json] = SharedKV.defaults | {
        "num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window_pattern": 5, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
        "final_logit_softcapping": 30.0, "num_kv_shared_layers": 15, "hidden_size_per_layer_input": 256,
        "altup_num_inputs": 4, "altup_active_idx": 0, "altup_correct_scale": True,
    }  # fmt: skip
    top: ClassVar[Names] = PerLayer.top | AltUp.altup_top
    names: ClassVar[Names] = (
        SharedKV.names
        | AltUp.altup_names
        | {"correct_scale": Stored("altup.correct_output_scale", bare=True), "laurel_norm": "laurel.post_laurel_norm"}
        | {f"laurel_{n}": f"laurel.linear_{n}" for n in ("left", "right")}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        layers, key = f.integer("num_hidden_layers", high=LAYERS), "activation_sparsity_pattern"
        f.integer("altup_active_idx", low=0, high=f.integer("altup_num_inputs", low=2) - 1)
        f.flag("altup_correct_scale")
        f.integer("hidden_size_per_layer_input")
        usual = [SHARE if layers > SPARSE > i else 0.0 for i in range(layers)]
        own: Json = {key: f.shares(key, layers) if f.has(key) else usual}
        if isinstance(raw.get("intermediate_size"), list):
            own["intermediate_size"] = max(f.integers("intermediate_size", layers))
        return super().read_config(raw | own, max_model_len, **source)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        vocab, known = self.config.vocab, self.config.rest.get("vocab_size_per_layer_input") or self.config.vocab
        ids = np.arange(vocab, dtype=np.int32)[:, None]
        self.known = tensor.of(np.where(ids < known, ids, 0)) if known < vocab else None

    def rows(self, tokens: Array) -> Array:
        """What stands for images and sounds has no row of its own: the first one's is taken."""
        return tokens if self.known is None else look_up(self.known, tokens).reshape(tokens.shape[0])

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        x = self.guess(w, x)
        now = self.active(x)
        h = self.norm(now, w.input_layernorm)
        attended = add(now, self.norm(self.attend(w, h, step), w.post_attention_layernorm))
        out = scale(add(attended, self.laurel(w, h)), 2**-0.5)
        m = self.mlp(w, self.norm(out, w.pre_feedforward_layernorm), step)
        return self.embedded(w, self.correct(w, x, add(out, self.norm(m, w.post_feedforward_layernorm))), step)

    def laurel(self, w: Layer, x: Array) -> Array:
        """x, and what a narrow detour makes of it."""
        return add(x, self.norm(w.laurel_right(w.laurel_left(x)), w.laurel_norm))

    def mlp(self, w: Layer, x: Array, step: Step) -> Array:
        gate, share = w.gate_proj(x), self.config.activation_sparsity_pattern[w.index]
        gate = over_bar(gate, NormalDist().inv_cdf(share)) if share else gate
        return w.down_proj(self.gate(gate, w.up_proj(x)))

    def embedded(self, w: Layer, x: Array, step: Step) -> Array:
        """The layer's own rows, added to all streams but the first."""
        now = mul(self.active(x), w.correct_scale) if self.config.altup_correct_scale else self.active(x)
        return heads(concat(x[:, 0], flat(add(x[:, 1:], self.own(w, now, step)[:, None]))), x.shape[2])
