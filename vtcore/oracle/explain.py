"""Why a token differs: its position replayed under one choice of arithmetic after another, and which of them flip it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.oracle.choices import Open, Row, choices
from vtcore.oracle.comparison import describe, judge
from vtcore.oracle.followed import Engine
from vtcore.oracle.recording import Answer, Recording
from vtcore.oracle.reports.cleaned import shown
from vtcore.oracle.verdict import Kind, Tolerances


@dataclass(frozen=True)
class Replay:
    """One choice. margin: the recorded token's logit minus the rival's; below 0 the order is turned around. token: the likeliest."""

    choice: str
    token: int | None
    margin: float
    flips: bool
    why_not: str = ""  # where the choice can't be made


@dataclass(frozen=True)
class Explanation:
    """One position of one answer. rival: the engine's token, or the recorded second best."""

    recording: Recording
    answer: Answer
    position: int
    wanted: int
    rival: int
    chosen_by: str
    replays: tuple[Replay, ...]

    @property
    def recorded_margin(self) -> float | None:
        """What was recorded between the two; None where the rival is not among the alternatives."""
        other = self.answer.logprob(self.position, self.rival)
        return None if other is None else float(self.answer.top_logprobs[self.position, 0]) - other

    def __str__(self) -> str:
        spelled, margin = self.recording.spelled, self.recorded_margin
        wanted, rival = spelled(self.wanted), spelled(self.rival)
        lines = [
            f"prompt {shown(self.answer.name)}, token {self.position} ({self.chosen_by})",
            f"recorded {wanted}, rival {rival}, recorded margin {'unknown' if margin is None else format(margin, '.3g')}",
            "",
            *_aligned([("choice", "likeliest", f"{wanted} above {rival}", ""), *map(self._row, self.replays)]),
        ]
        flipping = [r.choice for r in self.replays if r.flips]
        return "\n".join([*lines, "", f"flipped by {len(flipping)} of {len(self.replays)}: {', '.join(flipping) or 'none'}"])

    def _row(self, r: Replay) -> tuple[str, str, str, str]:
        if r.token is None:
            return r.choice, "-", "-", r.why_not
        return r.choice, self.recording.spelled(r.token), f"{r.margin:+.4f}", "flips" if r.flips else ""


def explain(
    recording: Recording, prompt: int, open_model: Open, *, position: int | None = None, engine: Engine | None = None
) -> Explanation:
    """Replay one position. Which: `position`, else the first where an engine differs, else that of the nearest tie.

    prompt: from 1 on, as reports count. Raises ArgumentError for one that isn't there."""
    answer = _answer(recording, prompt)
    place, rival, why = _place(recording, answer, position, engine)
    ids = [*answer.prompt_token_ids, *answer.token_ids[:place]]
    replays = tuple(_replay(row, answer.token_ids[place], rival) for row in choices(open_model, ids))
    return Explanation(recording, answer, place, answer.token_ids[place], rival, why, _sorted(replays))


def _answer(recording: Recording, prompt: int) -> Answer:
    if not 1 <= prompt <= len(recording.answers):
        raise ArgumentError(f"prompt is {prompt}; the recording has prompts 1 to {len(recording.answers)}")
    return recording.answers[prompt - 1]


def _place(recording: Recording, answer: Answer, position: int | None, engine: Engine | None) -> tuple[int, int, str]:
    """The position, the rival there, and in words why it is these."""
    n = len(answer.token_ids)
    if position is not None and not 0 <= position < n:
        raise ArgumentError(f"position is {position}; the answer has tokens 0 to {n - 1}")
    if engine is None:
        at = int(answer.margins.argmin()) if position is None else position
        return at, int(answer.top_ids[at, 1]), "the nearest tie" if position is None else "as asked"
    found = judge(recording, answer, engine.follow(answer), Tolerances(0.0, 1e9, 0.0)).places
    differs = [p for p in found if p.kind in (Kind.NEAR, Kind.APART) and (position is None or p.position == position)]
    if not differs:
        where = "no token" if position is None else f"not token {position}"
        raise ArgumentError(f"the engine differs in {where} of this answer; without --engine the nearest tie is replayed")
    first = differs[0]
    if first.got is None:
        raise ArgumentError(f"{describe(first)}: the engine's token has no id here, so nothing can be replayed for it")
    return first.position, first.got, f"the engine says {first.got_text}"


def _replay(row: Row, wanted: int, rival: int) -> Replay:
    choice, logits, why = row
    if logits is None:
        return Replay(choice, None, 0.0, False, why)
    token = int(np.argmax(logits))
    return Replay(choice, token, float(logits[wanted]) - float(logits[rival]), token != wanted)


def _sorted(replays: Sequence[Replay]) -> tuple[Replay, ...]:
    """Whole choices as they come, then single ops, those first that move the margin most."""
    whole = [r for r in replays if " at " not in r.choice]
    exact = whole[0].margin
    return (*whole, *sorted((r for r in replays if " at " in r.choice), key=lambda r: -abs(r.margin - exact)))


def _aligned(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(len(r[i]) for r in rows) for i in range(3)]
    return ["  ".join([*(cell.ljust(w) for cell, w in zip(r, widths, strict=False)), r[3]]).rstrip() for r in rows]
