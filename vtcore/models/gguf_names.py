"""GGUF as another spelling of the same tables: where llama.cpp keeps what a forward reads, and which fixes its converter has made."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vtcore.models.channels import TURNED
from vtcore.models.config import ModelConfig
from vtcore.models.falcon_h1 import FOLDED
from vtcore.models.fused import GATE, QKV, STACKED, UP
from vtcore.models.gemma import PLUS_ONE
from vtcore.models.latent import KEYS, VALUES
from vtcore.models.names import Dialect, Fix, Numbers, Rows, Turned, Values
from vtcore.models.network import Network
from vtcore.models.selective import COLUMN, FLAT

PREFIX = "blk.{}."
PATHS = {  # by the forward's name
    "embed_tokens": "token_embd", "embed_positions": "position_embd", "embed_norm": "token_embd_norm", "norm": "output_norm",
    "lm_head": "output", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "o_proj": "attn_output",
    **{f"{n}_proj": f"attn_{n}" for n in "qkv"}, **{f"{n}_norm": f"attn_{n}_norm" for n in "qk"},
    **{f"{n}_proj": f"ffn_{n}" for n in ("gate", "up", "down")}, "router": "ffn_gate_inp", "router_bias": "exp_probs_b.bias",
    **{f"experts_{n}": f"ffn_{n}_exps" for n in ("gate", "up", "down")}, "shared_switch": "ffn_gate_inp_shexp",
    **{f"shared_{n}": f"ffn_{n}_shexp" for n in ("gate", "up", "down")},
}  # fmt: skip


def _halves(heads: str) -> Rows:
    """The converter pairs the channels of q and k, for a rope that turns neighbours; the forward turns halves."""

    def undo(rows: Numbers, c: ModelConfig) -> Numbers:
        pairs: Numbers = rows.reshape(getattr(c, heads), -1, 2)
        return pairs.swapaxes(1, 2).reshape(-1)

    return Rows(undo)


@dataclass(frozen=True)
class Difference:
    """How one GGUF architecture differs from the tables above."""

    paths: Mapping[str, str] = field(default_factory=dict)
    fixes: Mapping[str, Fix | None] = field(default_factory=dict)  # by the forward's name
    done: frozenset[Fix] = frozenset()  # of the class's own fixes


FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
GATE_UP = dict.fromkeys(("gate_proj", "up_proj"), "ffn_up")
PER_LAYER = {
    "embed_tokens_per_layer": "per_layer_token_embd", "per_layer_model_projection": "per_layer_model_proj",
    "per_layer_projection_norm": "per_layer_proj_norm", "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm", "layer_scalar": "layer_output_scale",
}  # fmt: skip
PAIRED = Difference(fixes={"q_proj": _halves("heads"), "k_proj": _halves("kv_heads")})
FUSED = Difference(dict.fromkeys(QKV, "attn_qkv"), dict(zip(QKV, STACKED, strict=True)))
INDEXER = {
    "index_q": "indexer.attn_q_b", "index_k": "indexer.attn_k", "index_norm": "indexer.k_norm", "index_weights": "indexer.proj",
}  # fmt: skip
LOW_RANK = {
    **{f"{n}_proj": f"attn_{n}" for n in ("q_a", "q_b")}, **{f"{n}_a_layernorm": f"attn_{n}_a_norm" for n in ("q", "kv")},
    "kv_a_proj": "attn_kv_a_mqa",
}  # fmt: skip
EXPANDED = ("k_up", "v_up")
LATENT = Difference(
    {**LOW_RANK, "k_up": "attn_k_b", "v_up": "attn_v_b"}, dict.fromkeys(EXPANDED, Values(lambda weight, c: weight.swapaxes(1, 2)))
)
WHOLE_LATENT = Difference(dict.fromkeys(EXPANDED, "attn_kv_b"), dict(zip(EXPANDED, (KEYS, VALUES), strict=True)))
EXPERTS = ("gate", "up", "down")
ONE_BY_ONE = Difference({f"experts_{n}": f"ffn_{n}.{{}}" for n in EXPERTS})
GATE_UP_EXPERTS = Difference(dict.fromkeys(("experts_gate", "experts_up"), "ffn_gate_up_exps"), {"experts_gate": GATE, "experts_up": UP})
SHARED_ALONE = Difference({f"shared_{n}": f"ffn_{n}" for n in EXPERTS})
SCAN = {
    "in_proj": "ssm_in", "conv1d": "ssm_conv1d", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "dt_bias": "ssm_dt.bias", "rate": "ssm_a",
    "skip": "ssm_d", "scan_norm": "ssm_norm", "out_proj": "ssm_out", **{f"{n}_norm": f"ssm_{n}_norm" for n in ("dt", "b", "c")},
}  # fmt: skip
SELECTIVE, CHANNELS = Difference(SCAN, {"rate": FLAT}), Difference(SCAN, {"rate": TURNED})
DELTA = Difference(
    SCAN | {
        "in_proj_qkv": "attn_qkv", "in_proj_z": "attn_gate", "in_proj_a": "ssm_alpha", "in_proj_b": "ssm_beta", "delta_norm": "ssm_norm",
        "gate": "attn_q", "post_attention_layernorm": "post_attention_norm",
    },
    {"rate": FLAT},
    frozenset({PLUS_ONE}),
)  # fmt: skip
SHORT = Difference({"norm": "token_embd_norm", **{n: f"shortconv.{n}" for n in ("in_proj", "conv", "out_proj")}})
KIMI = {
    **{f"conv_{n}": f"ssm_conv1d_{n}" for n in "qkv"}, **{f"{n}_proj": f"ssm_{n}" for n in ("f_a", "f_b", "g_a", "g_b")},
    "b_proj": "ssm_beta", "o_norm": "ssm_norm", "dt_bias": "ssm_dt.bias", "rate": "ssm_a",
}  # fmt: skip
DIFFERENCES = {
    "minicpm3": Difference(LOW_RANK),
    "kimi-linear": Difference({**LATENT.paths, **KIMI}, {**LATENT.fixes, "rate": COLUMN}),
    "deepseek2": LATENT,
    "glm-dsa": replace(LATENT, paths={**LATENT.paths, **INDEXER}),
    **dict.fromkeys(("mamba2", "nemotron_h", "nemotron_h_moe"), SELECTIVE),
    **dict.fromkeys(("mamba", "jamba"), CHANNELS),
    **dict.fromkeys(("lfm2", "lfm2moe"), SHORT),
    **dict.fromkeys(("qwen35", "qwen35moe"), DELTA),
    "falcon-h1": replace(SELECTIVE, done=FOLDED),
    "granitehybrid": replace(SELECTIVE, fixes={**SELECTIVE.fixes, **PAIRED.fixes}, done=frozenset({GATE, UP})),
    "qwen3next": replace(
        DELTA,
        paths={**DELTA.paths, "in_proj_a": "ssm_ba", "in_proj_b": "ssm_ba"},
        fixes={**DELTA.fixes, "in_proj_qkv": None, "in_proj_z": None},
    ),
    **dict.fromkeys(("llama", "smollm3", "granite", "minicpm", "olmo", "arcee", "mistral3"), PAIRED),
    **dict.fromkeys(("gemma", "nemotron"), Difference(done=frozenset({PLUS_ONE}))),
    **dict.fromkeys(("gemma2", "gemma3"), Difference(FOUR_NORMS, done=frozenset({PLUS_ONE}))),
    **dict.fromkeys(("olmo2", "exaone4", "seed_oss"), Difference(FOUR_NORMS)),
    "glm4moe": Difference({"post_attention_layernorm": "post_attention_norm"}),
    "granitemoe": replace(PAIRED, done=frozenset({GATE, UP})),
    "llama4": Difference(done=frozenset({Turned(), Turned(GATE), Turned(UP)})),
    "gpt-oss": Difference(
        {"post_attention_layernorm": "post_attention_norm", "sinks": "attn_sinks"}
        | {f"experts_{n}_bias": f"ffn_{n}_exps.bias" for n in ("gate", "up", "down")},
        dict.fromkeys(f"experts_{n}{b}" for n in ("gate", "up", "down") for b in ("", "_bias")),
    ),
    "internlm2": replace(PAIRED, fixes={**PAIRED.fixes, "v_proj": None}),
    "gpt2": Difference(done=frozenset({Turned()})),
    "falcon": Difference({"ln_attn": "attn_norm_2", "ln_mlp": "attn_norm"}),
    **dict.fromkeys(("phi3", "chatglm"), Difference(GATE_UP)),
    "glm4": Difference(GATE_UP | FOUR_NORMS),
    "gemma4": Difference(
        FOUR_NORMS
        | PER_LAYER
        | {
            "router_scale": "ffn_gate_inp.scale",
            "expert_scale": "ffn_down_exps.scale",
            "experts_gate": "ffn_gate_up_exps",
            "experts_up": "ffn_gate_up_exps",
            "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
            **{f"post_feedforward_layernorm_{n}": f"post_ffw_norm_{n}" for n in (1, 2)},
        }
    ),
    "gemma3n": Difference(
        FOUR_NORMS
        | PER_LAYER
        | {
            "spread": "altup_proj",
            "gather": "altup_unembd_proj",
            "predict": "altup_predict_coef",
            "correction": "altup_correct_coef",
            "correct_scale": "altup_correct_scale",
            "modality": "altup_router",
            "modality_norm": "altup_router_norm",
            "laurel_left": "laurel_l",
            "laurel_right": "laurel_r",
            "laurel_norm": "laurel_post_norm",
        }
    ),
    "apertus": Difference({"rise": "xielu.alpha_p", "fall": "xielu.alpha_n", "slope": "xielu.beta", "eps": "xielu.eps"}),
}


def gguf_dialect(cls: type[Network], name: str, tensors: Collection[str]) -> Dialect:
    """How a GGUF file of architecture `name` that holds `tensors` spells what `cls` reads."""
    own = DIFFERENCES.get(name, Difference())
    paths, fixes = PATHS | dict(own.paths), dict(own.fixes)
    for told in _told(tensors):
        paths |= told.paths
        fixes |= told.fixes
    return Dialect(cls.top, cls.names, PREFIX, paths, fixes, own.done)


def _told(tensors: Collection[str]) -> Iterator[Difference]:
    """What only the tensors tell: how this file's converter, perhaps an old one, stored what could be stored in several ways."""
    held = {re.sub(r"^blk\.\d+\.", "", n) for n in tensors}
    if "attn_qkv.weight" in held and "attn_q.weight" not in held:
        yield FUSED
    if "attn_kv_b.weight" in held:
        yield WHOLE_LATENT
    if "ffn_gate.0.weight" in held:
        yield ONE_BY_ONE
    if "ffn_gate_up_exps.weight" in held:
        yield GATE_UP_EXPERTS
    if "ffn_gate_inp.weight" not in held:
        yield SHARED_ALONE
