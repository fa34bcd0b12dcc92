"""Kimi K3: Kimi Linear, whose parts each look back over the sums of earlier blocks of layers (attention residuals), with experts in a
narrower space, SiTU, a gate on latent attention's output, and delta nets that forget no faster than a bound.

No oracle gates it: tests hold it against a small forward in NumPy, which was written from the same description. Where that leaves a
choice, this was taken: the first layer looks back over the embedding alone, and the head's norm is behind one more look back; experts are
chosen from the full width, and their weighed sum is normalised before it is widened; the norms inside latent attention have Kimi Linear's
epsilon, 1e-6, all others config.json's; A_log may be stored longer than there are heads."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from vtcore.models.decoder import Array, Layer, ModelConfig, Names, Param, Step, Stored, Values, architecture, flat, heads
from vtcore.models.fields import Fields, Json
from vtcore.models.kimi_linear import KimiLinear
from vtcore.op import Op
from vtcore.ops import add, concat, mix_streams, mul, scale, sigmoid, sigmoid_mul, situ_mul, softmax

RATE = Values(lambda a_log, c: np.exp(a_log.reshape(-1)[: c.linear_num_heads].reshape(-1, 1)))


@architecture("KimiK3ForConditionalGeneration")
class KimiK3(KimiLinear):
    """Between layers x is [T, n * hidden]: the sums of the closed blocks, and behind them that of the open one."""

    ungated: ClassVar[str] = "none: held against a forward in NumPy, not against an oracle"
    acts: ClassVar[Mapping[str, Op]] = {"situ": situ_mul}
    only: ClassVar[Json] = KimiLinear.only | {"topk_method": "noaux_tc"}
    defaults: ClassVar[Json] = KimiLinear.defaults | {
        "hidden_act": "situ", "activation_situ_beta": 1.0, "latent_moe_use_norm": False, "mla_use_output_gate": False,
    }  # fmt: skip
    top: ClassVar[Names] = KimiLinear.top | {f"output_attn_res_{n}": f"model.output_attn_res_{n}" for n in ("norm", "proj")}
    names: ClassVar[Names] = (
        KimiLinear.names
        | {"rate": Stored("self_attn.A_log", RATE), "gate": "self_attn.g_proj"}
        | {f"latent_{n}": f"block_sparse_moe.routed_expert_{n}" for n in ("down_proj", "norm", "up_proj")}
    )

    @classmethod
    def read_config(cls, raw: Json, max_model_len: int | None = None, **source: Any) -> ModelConfig:
        f = Fields(raw, source.get("file", "config.json"), source.get("spelled"))
        delta = Fields(f.mapping("linear_attn_config"), f"{f.file}: linear_attn_config")
        f.integer("attn_res_block_size")
        for key in ("latent_moe_use_norm", "mla_use_output_gate"):
            f.flag(key)
        own: Json = {"gate_lower_bound": delta.number("gate_lower_bound", low=-1e6, high=0.0)}
        own["use_full_rank_gate"] = delta.flag("use_full_rank_gate")
        return super().read_config(raw | own, max_model_len, **source)

    def layer(self, w: Layer, x: Array, step: Step) -> Array:
        seen = self.look_back(x, w.self_attention_res_norm, w.self_attention_res_proj)
        out = self.attend(w, self.norm(seen, w.input_layernorm), step)
        x = self.grown(x, out) if w.index % self.config.attn_res_block_size else concat(x, out)
        seen = self.look_back(x, w.mlp_res_norm, w.mlp_res_proj)
        return self.grown(x, self.mlp(w, self.norm(seen, w.post_attention_layernorm), step))

    def grown(self, x: Array, out: Array) -> Array:
        """The open block's sum, with a part's output added."""
        edge = x.shape[1] - self.config.hidden
        return concat(x[:, :edge], add(x[:, edge:], out)) if edge else add(x, out)

    def look_back(self, x: Array, norm: Param, proj: Param) -> Array:
        """All blocks' sums as one, [T, hidden], weighed by what a query says of each."""
        blocks = heads(x, self.config.hidden)
        scores = proj(self.norm(blocks, norm))
        return flat(mix_streams(blocks, softmax(scores.reshape(x.shape[0], 1, blocks.shape[1]))))

    def finish(self, x: Array) -> Array:
        t = self.top_weights
        return super().finish(self.look_back(x, t.output_attn_res_norm, t.output_attn_res_proj))

    def decay(self, w: Layer, x: Array) -> Array:
        steps = mul(add(x, w.dt_bias.reshape(x.shape[1], x.shape[2])), w.rate)
        return scale(sigmoid(steps), self.config.gate_lower_bound)

    def opening(self, w: Layer, x: Array) -> Array:
        return w.gate(x) if self.config.use_full_rank_gate else super().opening(w, x)

    def output(self, w: Layer, x: Array, out: Array) -> Array:
        return w.o_proj(sigmoid_mul(flat(out), w.gate(x))) if self.config.mla_use_output_gate else super().output(w, x, out)

    def situ(self) -> dict[str, float]:
        """The bounds of both factors of the activation."""
        c = self.config
        return {"alpha": c.activation_situ_beta, "limit": c.rest.get("activation_situ_linear_beta") or math.inf}

    def gate(self, gate: Array, up: Array) -> Array:
        return situ_mul(gate, up, **self.situ())

    def shared(self, w: Layer, x: Array) -> Array:
        return w.shared_down(self.gate(w.shared_gate(x), w.shared_up(x)))

    def mix(self, w: Layer, x: Array, step: Step) -> Array:
        c, weights_ids = self.config, self.route(w, x)
        narrow = c.rest.get("routed_expert_hidden_size")
        out = self.experts(w, w.latent_down_proj(x) if narrow else x, *weights_ids, act="situ", **self.situ())
        if narrow:
            out = w.latent_up_proj(self.norm(out, w.latent_norm) if c.latent_moe_use_norm else out)
        return add(out, self.shared(w, x))
