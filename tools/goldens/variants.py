"""A second network for each architecture: another seed, and every number of config.json that can be another and matters is another."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from goldens import oracle
from goldens.recipe import Array, Recipe
from goldens.record import VARIED, Attempt, best_of, written
from goldens.rules import RULES, Path, candidates
from vtcore.conformance.draw import integers
from vtcore.conformance.golden import Golden

ALIKE = re.compile(r"^llama_|_rope|longrope|bfloat16|sliding|_six$|own_scale")  # their architecture has another recipe
TIED = "tie_word_embeddings"
STATES = ("mamba_", "linear_", "conv_")  # of layers whose convolutions have the activation too: there it is always silu
DERIVED = {"layer_types", "mlp_layer_types", "layers_block_type", "rope_theta", "partial_rotary_factor"}  # from what a recipe says


def put(numbers: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Numbers with one of them changed."""
    out = dict(numbers)
    out[path[0]] = put(out[path[0]], path[1:], value) if len(path) > 1 else copy.deepcopy(value)
    return out


def varied(recipe: Recipe, golden: Golden) -> dict[str, Any] | None:
    """What a golden's file holds of its second network; None for recipes that need none."""
    if ALIKE.search(recipe.name):
        return None
    seen, numbers = mattering(recipe, golden)
    other, config, best = second(recipe, numbers)
    if best.various < 6 and seen.pop(TIED, 0) is None:  # a head that is the embedding makes some repeat themselves
        other, config, best = second(recipe, {n: v for n, v in numbers.items() if n != TIED})
    out, base = written(other, config, best), golden.config
    change = {"without": [n for n in base if n not in out["config"]], "with": {n: v for n, v in out["config"].items() if base.get(n) != v}}
    return {"seed": out["seed"], "noise": out["noise"], "config": change, "seen": seen, "tensors": out["tensors"], "cases": out["cases"]}


def second(recipe: Recipe, numbers: Mapping[str, Any]) -> tuple[Recipe, dict[str, Any], Attempt]:
    """The best network with other numbers."""
    other = replace(recipe, numbers=numbers)
    config, first = oracle.template(other)
    first = {n: a for n, a in first.items() if not recipe.drop or not re.search(recipe.drop, n)}
    return other, config, best_of(other, config, first, VARIED)


def mattering(recipe: Recipe, golden: Golden) -> tuple[dict[str, float | None], dict[str, Any]]:
    """Which fields move the logits of the golden's own network, by how much (None: they change its tensors); and numbers with all of them.

    What the oracle refuses, and what changes nothing, is said and left as it is."""
    weights = golden.weights()
    base = oracle.load(recipe, golden.config, recipe.disguise.weights(weights) if recipe.disguise else weights)
    prompt = integers(0, "variant", 40, 3, 290)
    logits, state = oracle.forward(base, prompt), base.state_dict()
    seen: dict[str, float | None] = {}
    numbers: dict[str, Any] = dict(recipe.numbers)
    defaults = {} if recipe.disguise else {n: v for n, v in golden.config.items() if n in RULES and n not in DERIVED}
    kept = {*recipe.keep, *(["hidden_act"] if any(n.startswith(STATES) for n in golden.config) else [])}
    for path, value in candidates({**defaults, **recipe.numbers}):
        if kept & {path[0], path[-1]}:
            continue
        name, together = "/".join(path), put(numbers, path, value)
        try:
            alone = None if path[-1] == TIED else effect(recipe, put(recipe.numbers, path, value), state, prompt, logits)
            effect(recipe, together, state, prompt, logits)
        except Exception as error:  # whatever the oracle's classes raise for numbers that don't go together
            print(f"{recipe.name}: {name} stays: {type(error).__name__}: {str(error)[:100]}", flush=True)
            continue
        if alone is not None and alone < (1e-2 if recipe.noisy else 1e-3):
            print(f"{recipe.name}: {name} is not seen ({alone:.1g})", flush=True)
            continue
        seen[name], numbers = None if alone is None else float(f"{alone:.2g}"), together
    return seen, numbers


def effect(recipe: Recipe, numbers: Mapping[str, Any], state: Any, prompt: list[int], logits: Array) -> float | None:
    """By how much other numbers move the logits of the same weights; None where these don't fit."""
    model = oracle.fresh(replace(recipe, numbers=numbers))
    own = model.state_dict()
    if own.keys() != state.keys() or any(own[n].shape != state[n].shape for n in own):
        oracle.forward(model, prompt)
        return None
    model.load_state_dict(state)
    return float(np.abs(oracle.forward(model, prompt) - logits).max())
