"""How each tensor of a checkpoint is drawn, from its name, its shape and what transformers put there at first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import numpy as np

from goldens.recipe import VOCAB
from vtcore.conformance.draw import Drawn

Array = np.ndarray[Any, Any]
EMBEDDING = re.compile(r"(^|\.)(embed|embed_tokens\w*|tok_embeddings|wte|embed_in|word_embeddings|embeddings)\.weight$")
POSITIONS = re.compile(r"(^|\.)(wpe|embed_positions)\.weight$")
HEAD = re.compile(r"^(language_model\.)?(lm_head|output|embed_out|head)\.(weight|bias)$")
ROUTER = re.compile(r"(router|mlp\.gate|moe\.gate|feed_forward\.gate|block_sparse_moe\.gate|ffn\.gate|mixer\.gate)(\.\w+)?\.weight$")
CONVOLUTION = re.compile(r"(conv1d|_conv|conv\.conv)\.weight$")
INPUT_FIRST = re.compile(r"(attn\.c_attn|attn\.c_proj|mlp\.c_fc|mlp\.c_proj)\.weight$|experts\.(gate_up_proj|down_proj)$")
LAST = re.compile(  # the last norm, or of a network without one its last projection
    r"^(language_model\.)?(model\.|transformer\.|gpt_neox\.|backbone\.)?(language_model\.|text_model\.|decoder\.)?"
    r"(norm|ln_f|final_layer_norm|final_layernorm|final_norm|norm_f|embedding_norm|project_out)\.(weight|bias)$"
)
DECAYS = re.compile(r"(A_log|dt_bias|dt_proj\.bias|\bD)$")


@dataclass(frozen=True)
class Scales:
    """What an attempt may change."""

    embedding: float
    gain: float = 1.2

    def drawn(self, name: str, first: Array, input_first: bool) -> Drawn:
        """One tensor's draw. `input_first`: this family's experts and projections are stored [in, out]."""
        shape, mean = first.shape, float(first.mean()) if first.size else 0.0
        if first.dtype.kind == "i":
            return Drawn(name, shape, distinct=8)
        if not shape:  # a number, not a weight
            return Drawn(name, shape, 0.0, _short(mean))
        if DECAYS.search(name):
            return Drawn(name, shape, round(0.2 + float(first.std()), 1), round(mean, 1))
        if "sink" in name:
            return Drawn(name, shape, 1.0)
        if name.endswith(("bias", "_bias")):
            return Drawn(name, shape, 0.1)
        if first.ndim == 1 or np.ptp(first) == 0:
            return Drawn(name, shape, 0.15, _short(mean))
        if EMBEDDING.search(name):
            return Drawn(name, shape, self.embedding if shape[0] == VOCAB else 0.3)
        if POSITIONS.search(name):
            return Drawn(name, shape, 0.3)
        return Drawn(name, shape, _short(self._gain(name) / sqrt(_inputs(name, shape, input_first))))

    def _gain(self, name: str) -> float:
        return 2.0 if ROUTER.search(name) else 1.0 if CONVOLUTION.search(name) else self.gain


def louder(drawn: Mapping[str, Drawn], factor: float) -> dict[str, Drawn]:
    """The same network with its logits scaled: by the head, or where the embedding serves as the head, by the last norm."""
    head = [n for n in drawn if HEAD.match(n)]
    changed = {n: _scaled(drawn[n], factor) for n in head or [n for n in drawn if LAST.match(n)]}
    assert changed, "neither a head nor a last norm: its name is missing in LAST"
    return {**drawn, **changed}


def _scaled(d: Drawn, factor: float) -> Drawn:
    around = (
        1.0 if d.name.endswith("weight") and len(d.shape) == 1 and abs(d.offset) < 0.5 else 0.0
    )  # a norm that stores its weight minus one
    return replace(d, std=_short(d.std * factor), offset=_short((around + d.offset) * factor - around))


def _inputs(name: str, shape: tuple[int, ...], input_first: bool) -> int:
    if input_first and INPUT_FIRST.search(name):
        return shape[-2]
    return shape[-1] if len(shape) == 3 and not CONVOLUTION.search(name) else prod(shape[1:])


def _short(x: float) -> float:
    return float(f"{x:.5g}")
