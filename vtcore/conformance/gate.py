"""The gate: a golden's prompts through vtcore's model, and a verdict on every token and every logit that was recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.conformance.golden import Case, Golden, probes
from vtcore.conformance.runner import Model, Request, Runner
from vtcore.dispatch import REFERENCE, Dispatcher
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.decoder import Decoder
from vtcore.models.load import load_model
from vtcore.provider import Provider
from vtcore.rounding import Rounding, dtype_of, rounded_weight

Array = np.ndarray[Any, Any]


class Way(Enum):
    """How the prompts are run."""

    BATCHED = "batched"  # all at once
    CHUNKED = "chunked"  # all at once, 13 tokens a step
    ALONE = "alone"  # one after another


class Outcome(Enum):
    """What became of the tokens."""

    EXACT = "exact"
    NEAR_TIE = "near tie"  # they part where the oracle's own two best are nearer than twice the tolerance
    DIVERGED = "diverged"


@dataclass(frozen=True)
class Parting:
    """Where an answer leaves the golden's first."""

    case: int
    position: int  # of the answer
    wanted: int
    got: int
    margin: float  # the oracle's


@dataclass(frozen=True)
class Verdict:
    """One golden, run one way."""

    golden: str
    way: Way
    outcome: Outcome
    matched: int
    tokens: int
    error: float  # the largest of any logit or probe, up to where tokens part
    tolerance: float
    parting: Parting | None = None

    @property
    def passed(self) -> bool:
        """Every token, and every logit within the tolerance."""
        return self.outcome is Outcome.EXACT and self.error <= self.tolerance

    def __str__(self) -> str:
        line = f"{self.golden} {self.way.value}: {self.outcome.value}, {self.matched}/{self.tokens} tokens, logits within {self.error:.1e}"
        if self.error > self.tolerance:
            line += f" (allowed: {self.tolerance:.0e})"
        if p := self.parting:
            line += f"; prompt {p.case}, token {p.position}: {p.got} instead of {p.wanted}, which stands {p.margin:.2g} above the next"
        return line


def load(golden: Golden, directory: Path | None = None, **options: Any) -> Decoder:
    """vtcore's model of a golden's checkpoint, written to a directory (a temporary one) first."""
    if directory is None:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
            return load(golden, Path(temporary), **options)
    if (dtype := dtype_of(golden.dtype)) is not None:
        options = {"wrap": rounded_weight(dtype), **options}
    checkpoint = open_checkpoint(golden.write_safetensors(directory))
    return load_model(checkpoint, max_model_len=golden.max_model_len, **options)


def engine(golden: Golden, providers: Sequence[Provider] = ()) -> Dispatcher | Rounding:
    """What runs the golden's ops: a chain of providers, with the roundings that the oracle made."""
    dispatcher, dtype = Dispatcher(providers), dtype_of(golden.dtype)
    return dispatcher if dtype is None else Rounding(dispatcher, dtype)


def answer(model: Model, golden: Golden, providers: Sequence[Provider] = (), way: Way = Way.BATCHED) -> list[Request]:
    """The golden's prompts, run to the end."""
    return _run(model, golden, engine(golden, providers), way)


def _run(model: Model, golden: Golden, chain: Dispatcher | Rounding, way: Way) -> list[Request]:
    requests = [Request(c.prompt, len(c.tokens)) for c in golden.cases]
    together = [[r] for r in requests] if way is Way.ALONE else [requests]
    for some in together:
        Runner(model, chain, 13 if way is Way.CHUNKED else 10**9).run(some)
    return requests


def fallen(model: Model, golden: Golden, providers: Sequence[Provider]) -> tuple[Verdict, dict[str, int]]:
    """The verdict on a chain of providers, and how often each op fell through it to its definition."""
    chain = engine(golden, providers)
    verdict = judge(golden, _run(model, golden, chain, Way.BATCHED))
    ran = (chain.dispatcher if isinstance(chain, Rounding) else chain).ran
    return verdict, {op: n for (op, provider), n in sorted(ran.items()) if provider == REFERENCE}


def judge(golden: Golden, requests: Sequence[Request], way: Way = Way.BATCHED) -> Verdict:
    """Tokens first, then every recorded logit that both sides computed from the same tokens."""
    pairs = list(zip(golden.cases, requests, strict=True))
    partings = [p for i, (case, r) in enumerate(pairs) if (p := parting(i, case, r.answer))]
    matched = sum(a == b for case, r in pairs for a, b in zip(case.tokens, r.answer, strict=True))
    near = all(p.margin <= 2 * golden.tolerance for p in partings)
    outcome = Outcome.EXACT if not partings else Outcome.NEAR_TIE if near else Outcome.DIVERGED
    worst = max(error(case, r) for case, r in pairs)
    first = min(partings, key=lambda p: p.position, default=None)
    return Verdict(golden.name, way, outcome, matched, sum(len(c.tokens) for c in golden.cases), worst, golden.tolerance, first)


def parting(index: int, case: Case, tokens: Sequence[int]) -> Parting | None:
    """The first token that differs."""
    for position, (wanted, got) in enumerate(zip(case.tokens, tokens, strict=True)):
        if wanted != got:
            return Parting(index, position, wanted, got, case.margins[position])
    return None


def error(case: Case, request: Request) -> float:
    """The largest difference from what was recorded; of rows after a differing token, which say nothing, none."""
    apart = parting(0, case, request.answer)
    same = len(case.tokens) if apart is None else apart.position + 1
    first, rows = len(case.prompt) - 1, request.rows[: len(case.prompt) - 1 + same]
    found = [probes(rows) - case.probes[: len(rows)], rows[first:][np.arange(same), case.tokens[:same]] - case.top[:same]]
    if case.last.size:
        found.append(rows[first] - case.last)
    return max(float(np.abs(f).max()) for f in found)


def check(golden: Golden, providers: Sequence[Provider] = (), ways: Sequence[Way] = tuple(Way)) -> list[Verdict]:
    """A golden in each of some ways."""
    model = load(golden)
    return [judge(golden, answer(model, golden, providers, way), way) for way in ways]
