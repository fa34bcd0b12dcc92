"""Verdicts: what became of each token, of each prompt, and of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from vtcore.errors import ArgumentError


class Outcome(Enum):
    """What became of a prompt. Where several hold, the one that stands first here."""

    DIVERGED = "DIVERGED"  # a token differs beyond a near-tie, or a log probability beyond its tolerance
    NOT_COMPARED = "NOT_COMPARED"  # nothing, or not all of it, could be held against the recording
    NEAR_TIE = "NEAR_TIE"  # tokens differ, each where the recording's own two were nearer than the threshold
    EXACT = "EXACT"  # every token, and every log probability that the engine gave within the tolerance


class Kind(Enum):
    """What became of a token."""

    SAME = "same"
    NEAR = "near tie"
    DRIFTED = "drifted"  # the same token, but its log probability is off by more than the tolerance
    APART = "diverged"
    MISSING = "not compared"

    @property
    def wrong(self) -> bool:
        """Whether it makes its prompt DIVERGED."""
        return self in (Kind.APART, Kind.DRIFTED)


@dataclass(frozen=True)
class Tolerances:
    """near_tie: nats that the recording's token may stand above the engine's. logprob: how far the engine's log probability of a token that
    is likely may be from the recorded one. hidden: of a layer's output, relative to the largest value of its row."""

    near_tie: float
    logprob: float
    hidden: float

    def __post_init__(self) -> None:
        for name in ("near_tie", "logprob", "hidden"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ArgumentError(f"tolerance {name} is {getattr(self, name)}; it must be a number from 0")


# What an engine computes in -> how far it may be. docs/oracle-in-ci.md shows what was measured.
# float32: 100 times what transformers is off. bfloat16: logits from 16 to 32 lie 0.125 apart; a tie within four such steps, log
# probabilities within six. float16: the same of its steps of 1/64. int8: llama.cpp, with 8-bit activations, is up to 0.75 off.
ARITHMETIC: Mapping[str, Tolerances] = {
    "float32": Tolerances(near_tie=1e-3, logprob=5e-3, hidden=1e-3),
    "float16": Tolerances(near_tie=0.06, logprob=0.1, hidden=0.02),
    "bfloat16": Tolerances(near_tie=0.5, logprob=0.75, hidden=0.15),
    "int8": Tolerances(near_tie=0.5, logprob=1.0, hidden=0.15),
}


@dataclass(frozen=True)
class Place:
    """One token of an answer. wanted, got: ids, and texts for people. margin: nats that the recording puts `wanted` above `got`; with
    `at_least` only that much is known, since `got` is not among its alternatives. lead: what the engine puts `got` above `wanted`.
    difference: the engine's log probability minus the recorded one, of the likely token where it is largest."""

    position: int
    kind: Kind
    wanted: int
    got: int | None
    wanted_text: str
    got_text: str
    margin: float = 0.0
    at_least: bool = False
    lead: float | None = None
    difference: float | None = None


@dataclass(frozen=True)
class FirstLayer:
    """Where the hidden states part first: a layer's index, the position in prompt and answer, and the relative error there."""

    layer: int
    position: int
    error: float


@dataclass(frozen=True)
class PromptVerdict:
    """One prompt."""

    name: str
    text: str | None
    outcome: Outcome
    reason: str
    places: tuple[Place, ...]
    how: str = ""
    first_layer: FirstLayer | None = None
    layers_compared: bool = False

    @property
    def compared(self) -> int:
        """Tokens that were held against the recording."""
        return sum(p.kind is not Kind.MISSING for p in self.places)

    @property
    def largest_difference(self) -> float | None:
        """Of all log probabilities; None where the engine gave none."""
        return max((abs(p.difference) for p in self.places if p.difference is not None), default=None)

    @property
    def first(self) -> Place | None:
        """The first token that is not the same: of several, one that decides the outcome."""
        decides = [p for p in self.places if p.kind.wrong] or [p for p in self.places if p.kind is Kind.NEAR]
        return decides[0] if decides else None


@dataclass(frozen=True)
class Comparison:
    """All prompts of a recording against one engine."""

    recording: str
    model: str
    recorded: Mapping[str, str]
    engine: Mapping[str, str]
    arithmetic: str
    tolerances: Tolerances
    verdicts: tuple[PromptVerdict, ...]
    notes: tuple[str, ...] = ()
    near_ties_pass: bool = True

    def count(self, outcome: Outcome) -> int:
        """Prompts of this outcome."""
        return sum(v.outcome is outcome for v in self.verdicts)

    @property
    def passed(self) -> bool:
        """Whether every prompt is EXACT, or NEAR_TIE where those pass; one without prompts is no pass."""
        return bool(self.verdicts) and all(self.passes(v.outcome) for v in self.verdicts)

    def passes(self, outcome: Outcome) -> bool:
        """Whether a prompt of this outcome does."""
        return outcome is Outcome.EXACT or (outcome is Outcome.NEAR_TIE and self.near_ties_pass)
