"""A recipe: which small network to build in transformers, and what is particular about recording it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtcore.conformance.draw import Drawn

Array = np.ndarray[Any, Any]
RECIPES: dict[str, Recipe] = {}

VOCAB, HIDDEN, WIDE = 320, 64, 96
SPECIAL: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SMALL: dict[str, Any] = {
    **SPECIAL, "vocab_size": VOCAB, "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": 3,
    "max_position_embeddings": 512,
}  # fmt: skip
GROUPED: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
EPS, SMALLER = 1e-3, 3e-4  # larger than in trained models, so that one that was not read from the config is seen
LLAMA: dict[str, Any] = {**SMALL, **GROUPED, "rms_norm_eps": EPS}
NEAR = {**LLAMA, "rms_norm_eps": SMALLER}
SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"


@dataclass(frozen=True)
class Disguise:
    """A checkpoint that transformers itself does not write: an architecture which it has under another name, or older tensor names."""

    tensors: Callable[[Mapping[str, Drawn]], list[Drawn]]  # what transformers writes -> what the checkpoint holds
    weights: Callable[[dict[str, Array]], dict[str, Array]]  # what the checkpoint holds -> what transformers reads
    config: Callable[[dict[str, Any]], dict[str, Any]] = lambda c: c


@dataclass(frozen=True)
class Recipe:
    """One golden to record."""

    name: str
    model: str  # a class of transformers
    config: str
    numbers: Mapping[str, Any]
    dtype: str = "float32"
    noisy: bool = False  # the oracle's own noise is above 1e-4
    max_model_len: int | None = None
    oracle: Mapping[str, Any] = field(default_factory=dict)  # what the oracle's config says instead, for a rule that is not transformers'
    disguise: Disguise | None = None
    drop: str = ""  # a pattern of tensors that transformers writes though they follow from the config
    keep: tuple[str, ...] = ()  # fields that the second network has as the first
    attempts: int = 24  # other seeds and scales are tried until tokens are clear and various


def rope(theta: Any = 10000.0, kind: Any = "default", **more: Any) -> dict[str, Any]:
    """rope_parameters."""
    return {"rope_type": kind, "rope_theta": theta, **more}


def recipe(name: str, family: str, numbers: Mapping[str, Any], *, model: str = "", config: str = "", **options: Any) -> None:
    """Register a recipe: `family` is the stem of transformers' two class names, unless they are given."""
    assert name not in RECIPES, name
    RECIPES[name] = Recipe(name, model or f"{family}ForCausalLM", config or f"{family}Config", numbers, **options)
