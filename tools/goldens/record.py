"""From a recipe to a golden's JSON: draw, load, ask, and try again until the answers are clear and various enough to judge by."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from goldens import oracle
from goldens.recipe import Array, Recipe
from goldens.scales import HEAD, Scales, louder
from vtcore.conformance.draw import Drawn, fold, integers
from vtcore.conformance.golden import probes

LENGTHS = (1, 7, 33, 70)
WHOLE_ROWS = (7, 70)  # the prompts whose last row of logits is kept whole
LOUDNESS = 2.5  # deviation of logits: as in trained models, so that a margin means as much
CACHED = 0.01  # above this, the oracle with a cache is not meant to be the same as without: dynamic rope
TIED = ((0.3, 1.2), (0.3, 1.2), (0.1, 1.2), (0.1, 1.5), (0.05, 1.5), (0.02, 1.5), (0.01, 2.0), (0.005, 2.0), (0.02, 2.5), (0.05, 1.2))


@dataclass(frozen=True)
class Wanted:
    """What makes answers good enough to judge by."""

    clear: float = 2e-3  # the least margin
    various: int = 12  # how many different tokens of an answer
    quiet: float = 2.5e-5  # the oracle's own noise: a quarter of the tolerance
    lengths: tuple[int, ...] = LENGTHS  # of prompts
    steps: int = oracle.STEPS  # tokens of an answer
    first: int = 0  # seed


HALF = Wanted(0.03, 8, 1.0)  # of bfloat16: the margin is a step of its grid where the best logits lie
VARIED = Wanted(various=9, lengths=(5, 40), steps=24, first=500)  # of the second network


@dataclass
class Attempt:
    """One seed and one set of scales, and what the oracle says then."""

    seed: int
    drawn: dict[str, Drawn]
    model: Any
    answers: list[tuple[list[int], Array]]
    lengths: tuple[int, ...]

    @property
    def prompts(self) -> list[list[int]]:
        return [integers(self.seed, f"prompt {n}", n, 3, 290) for n in self.lengths]

    @property
    def clear(self) -> float:
        """The least margin of any token."""
        return min(float(margins(logits).min()) for _, logits in self.answers)

    @property
    def various(self) -> int:
        """The least number of different tokens in an answer."""
        return min(len(set(tokens)) for tokens, _ in self.answers)

    @cached_property
    def noise(self) -> float | None:
        """How far the oracle is from itself without a cache; None where that is not meant to be the same."""
        asked = zip(self.prompts, self.answers, strict=True)
        worst = max(float(np.abs(uncached(self.model, p, tokens) - logits).max()) for p, (tokens, logits) in asked)
        return float(f"{worst:.2g}") if worst < CACHED else None

    def score(self, wanted: Wanted) -> float:
        """2 when it is good enough, below 0 when it is none."""
        if not self.clear >= wanted.clear:  # NaN too
            return -1.0
        various = min(self.various / wanted.various, 1.0)
        return various + (min(wanted.quiet / (self.noise or wanted.quiet), 1.0) if various == 1.0 else 0.0)


def margins(logits: Array) -> Array:
    """How far the best of each row stands above the second."""
    second, best = np.partition(logits, -2, axis=-1)[:, -2:].T
    return np.asarray(best - second)


def record(recipe: Recipe) -> dict[str, Any]:
    """Everything that a golden's file holds."""
    config, first = oracle.template(recipe)
    first = {n: a for n, a in first.items() if not recipe.drop or not re.search(recipe.drop, n)}
    return written(recipe, config, best_of(recipe, config, first, HALF if recipe.dtype != "float32" else Wanted()))


def best_of(recipe: Recipe, config: Mapping[str, Any], first: Mapping[str, Array], wanted: Wanted) -> Attempt:
    """The first attempt that is good enough, or the best of all."""
    best, half = None, recipe.dtype != "float32"
    wanted = replace(wanted, quiet=1.0) if recipe.noisy else wanted
    for attempt in attempts(recipe, config, first, wanted):
        if half and not rounding_matters(recipe, config, attempt):
            continue
        if best is None or attempt.score(wanted) > best.score(wanted):
            best = attempt
        if best.score(wanted) == 2.0:
            break
    assert best is not None
    said = f"least margin {best.clear:.2g}, different tokens {best.various}, noise {best.noise}"
    print(f"{recipe.name}: seed {best.seed}, {said}", flush=True)
    return best


def rounding_matters(recipe: Recipe, config: Mapping[str, Any], attempt: Attempt) -> bool:
    """Whether float32 would give another answer somewhere: else nothing shows that rounding was done."""
    model = build(replace(recipe, dtype="float32"), config, attempt.drawn, attempt.seed)
    return any(oracle.greedy(model, p)[0] != tokens for p, (tokens, _) in zip(attempt.prompts, attempt.answers, strict=True))


def attempts(recipe: Recipe, config: Mapping[str, Any], first: Mapping[str, Array], wanted: Wanted) -> Iterator[Attempt]:
    """One network after another, each with logits of the wanted deviation."""
    input_first = any(word in recipe.model for word in ("GPT2", "GptOss", "Llama4"))
    tied = not any(HEAD.match(n) for n in first)
    for seed in range(wanted.first, wanted.first + recipe.attempts):
        embedding, gain = TIED[seed % len(TIED)] if tied else (1.0, 1.2)
        drawn = {n: Scales(embedding, gain).drawn(n, a, input_first) for n, a in first.items()}
        if recipe.disguise:
            drawn = {d.name: d for d in recipe.disguise.tensors(drawn)}
        probe = integers(seed, "loudness", 33, 3, 290)
        for _ in range(4):
            model = build(recipe, config, drawn, seed)
            factor = LOUDNESS / float(oracle.forward(model, probe).std())
            if 0.9 < factor < 1.1 or not np.isfinite(factor):
                break
            drawn = louder(drawn, factor)
        attempt = Attempt(seed, drawn, model, [], wanted.lengths)
        attempt.answers = [oracle.greedy(model, p, wanted.steps) for p in attempt.prompts]
        yield attempt


def build(recipe: Recipe, config: Mapping[str, Any], drawn: Mapping[str, Drawn], seed: int) -> Any:
    """The oracle's model over these draws."""
    weights = {n: d.array(seed) for n, d in drawn.items()}
    return oracle.load(recipe, config, recipe.disguise.weights(weights) if recipe.disguise else weights)


def written(recipe: Recipe, config: dict[str, Any], best: Attempt) -> dict[str, Any]:
    """The golden of an attempt."""
    asked = zip(best.prompts, best.answers, strict=True)
    config = recipe.disguise.config(config) if recipe.disguise else config
    return {
        "seed": best.seed,
        "dtype": recipe.dtype,
        "tolerance": 0.125 if recipe.dtype != "float32" else 2e-3 if recipe.noisy else 1e-4,  # two steps of bfloat16 between 8 and 16
        "noise": best.noise,
        "max_model_len": recipe.max_model_len,
        "versions": dict(oracle.versions()),
        "config": config,
        "older": oracle.older_spelling(config) if "rope_parameters" in config else None,
        "tensors": [line(d) for d in fold(best.drawn.values())],
        "cases": [case(best.model, prompt, *answer) for prompt, answer in asked],
    }


def uncached(model: Any, prompt: list[int], tokens: list[int]) -> Array:
    """The logits that each token of an answer would be chosen from, from one forward over all."""
    return oracle.forward(model, prompt + tokens[:-1])[len(prompt) - 1 :]


def case(model: Any, prompt: list[int], tokens: list[int], logits: Array) -> dict[str, Any]:
    """One prompt's answer."""
    rows = np.concatenate([oracle.forward(model, prompt)[:-1], logits])
    return {
        "prompt": prompt,
        "tokens": tokens,
        "margins": [float(f"{m:.3g}") for m in margins(logits)],
        "top": rounded(logits.max(-1)),
        "probes": rounded(probes(rows)),
        "last": rounded(logits[0]) if len(prompt) in WHOLE_ROWS else [],
    }


def line(d: Drawn) -> list[Any]:
    """A draw in its file."""
    if d.distinct:
        return [d.name, list(d.shape), {"distinct": d.distinct}]
    return [d.name, list(d.shape), d.std, *([d.offset] if d.offset else [])]


def rounded(x: Array) -> Any:
    """To 1e-5: a tenth of the tolerance."""
    return np.round(x.astype(np.float64), 5).tolist()


def text(golden: Mapping[str, Any]) -> str:
    """JSON with a line for each field, tensor and list of a case."""
    return _lines(golden) + "\n"


def _lines(golden: Mapping[str, Any]) -> str:
    out = [f'"{name}": {_compact(value)}' for name, value in golden.items() if name not in ("tensors", "cases", "variant")]
    out.append('"tensors": [\n' + ",\n".join(map(_compact, golden["tensors"])) + "\n]")
    cases = ["{\n" + ",\n".join(f'"{n}": {_compact(v)}' for n, v in c.items()) + "\n}" for c in golden["cases"]]
    out.append('"cases": [' + ", ".join(cases) + "]")
    out += [f'"variant": {_lines(golden["variant"])}'] if golden.get("variant") else []
    return "{\n" + ",\n".join(out) + "\n}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
