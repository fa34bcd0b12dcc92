"""GGUF as another spelling of the same tables: where llama.cpp keeps what a forward reads, and which fixes its converter has made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtcore.models.config import ModelConfig
from vtcore.models.decoder import Network
from vtcore.models.gemma import PLUS_ONE
from vtcore.models.names import Dialect, Fix, Names, Numbers, Rows, Stored

PREFIX = "blk.{}."
PATHS = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    **{f"self_attn.{n}_proj": f"attn_{n}" for n in "qkv"}, **{f"self_attn.{n}_norm": f"attn_{n}_norm" for n in "qk"},
    "mlp.gate_up_proj": "ffn_up", **{f"mlp.{n}_proj": f"ffn_{n}" for n in ("gate", "up", "down")},
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


PAIRED = Difference(fixes={"q_proj": _halves("heads"), "k_proj": _halves("kv_heads")})
FOUR_NORMS = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
DIFFERENCES = {
    "llama": PAIRED,
    "smollm3": PAIRED,
    "granite": PAIRED,
    "gemma": Difference(done=frozenset({PLUS_ONE})),
    "gemma2": Difference(FOUR_NORMS, done=frozenset({PLUS_ONE})),
    "gemma3": Difference(FOUR_NORMS, done=frozenset({PLUS_ONE})),
}


def gguf_dialect(cls: type[Network], name: str) -> Dialect:
    """How a GGUF file of architecture `name` spells what `cls` reads."""
    own = DIFFERENCES.get(name, Difference())
    return Dialect(cls.top, cls.names, PREFIX, PATHS | dict(own.paths), own.fixes, own.done)


__all__ = ["DIFFERENCES", "Difference", "Names", "Stored", "gguf_dialect"]
