"""A recording against an engine, token by token. The engine follows the recorded tokens, so one that differs changes no later one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import numpy as np

from vtcore.errors import VtcoreError
from vtcore.oracle.followed import Engine, Followed, NotComparedError, Said
from vtcore.oracle.recording import Answer, Array, Recording
from vtcore.oracle.verdict import Comparison, FirstLayer, Kind, Outcome, Place, PromptVerdict, Tolerances

LIKELY = float(np.log(0.01))  # less likely alternatives are noise: their log probabilities are not held against the recording


def compare(
    recording: Recording, engine: Engine, tolerances: Tolerances, *, name: str = "", arithmetic: str = "float32", notes: Sequence[str] = ()
) -> Comparison:
    """A verdict for each prompt. Nothing that an engine does raises: it becomes a verdict."""
    verdicts = tuple(_judged(recording, answer, engine, tolerances) for answer in recording.answers)
    about: Mapping[str, str] = {"name": "unknown"}
    with suppress(NotComparedError):
        about = engine.describe()
    return Comparison(name, recording.model.name, recording.engine, about, arithmetic, tolerances, verdicts, tuple(notes))


def _judged(recording: Recording, answer: Answer, engine: Engine, tolerances: Tolerances) -> PromptVerdict:
    try:
        return judge(recording, answer, engine.follow(answer), tolerances)
    except VtcoreError as why:
        missing = tuple(_missing(recording, answer, i) for i in range(len(answer.token_ids)))
        return PromptVerdict(answer.name, answer.text, Outcome.NOT_COMPARED, str(why), missing)


def judge(recording: Recording, answer: Answer, followed: Followed, tolerances: Tolerances) -> PromptVerdict:
    """One answer and what an engine said along it."""
    places = tuple(_place(recording, answer, i, s, tolerances) for i, s in enumerate(followed.said))
    layers = answer.hidden is not None and followed.hidden is not None
    outcome = _outcome(places, followed)
    apart = next((p.position for p in places if p.kind.wrong), None)
    first = None if apart is None or not layers else _first_layer(answer, followed.hidden, apart, tolerances.hidden)
    return PromptVerdict(answer.name, answer.text, outcome, _reason(outcome, places, followed), places, followed.how, first, layers)


def _outcome(places: Sequence[Place], followed: Followed) -> Outcome:
    kinds = {p.kind for p in places}
    if any(k.wrong for k in kinds):
        return Outcome.DIVERGED
    if (Kind.MISSING in kinds or followed.problem is not None) and (followed.forced or Kind.NEAR not in kinds):
        return Outcome.NOT_COMPARED
    return Outcome.NEAR_TIE if Kind.NEAR in kinds else Outcome.EXACT


def _reason(outcome: Outcome, places: Sequence[Place], followed: Followed) -> str:
    decides = [p for p in places if p.kind.wrong] or [p for p in places if p.kind is Kind.NEAR]
    said = [] if not decides or outcome is Outcome.EXACT else [describe(decides[0])]
    if len(decides) > 1:
        said.append(f"{len(decides) - 1} more")
    return "; ".join([*said, *([followed.problem] if followed.problem else [])])


def describe(place: Place) -> str:
    """A token that is not the same, in words."""
    if place.kind is Kind.DRIFTED:
        return f"token {place.position}, {place.wanted_text}: log probability off by {place.difference:+.3g}"
    margin = f"{'at least ' if place.at_least else ''}{place.margin:.3g}"
    lead = "" if place.lead is None else f", the engine puts it {place.lead:.3g} above"
    return f"token {place.position}: {place.got_text} instead of {place.wanted_text}, which is recorded {margin} above it{lead}"


def _place(recording: Recording, answer: Answer, i: int, said: Said | None, tolerances: Tolerances) -> Place:
    if said is None:
        return _missing(recording, answer, i)
    wanted, got = answer.token_ids[i], said.token
    difference = _difference(answer, i, said)
    texts = (
        recording.spelled(wanted),
        repr(said.text) if got not in recording.pieces and said.text is not None else recording.spelled(got),
    )
    if got == wanted:
        drifted = difference is not None and abs(difference) > tolerances.logprob
        return Place(i, Kind.DRIFTED if drifted else Kind.SAME, wanted, got, *texts, difference=difference)
    recorded = None if got is None else answer.logprob(i, got)
    margin = float(answer.top_logprobs[i, 0]) - (float(answer.top_logprobs[i, -1]) if recorded is None else recorded)
    near = recorded is not None and margin <= tolerances.near_tie and (difference is None or abs(difference) <= tolerances.logprob)
    leads = got in said.logprobs and wanted in said.logprobs
    lead = said.logprobs[got] - said.logprobs[wanted] if leads and got is not None else None
    return Place(i, Kind.NEAR if near else Kind.APART, wanted, got, *texts, margin, recorded is None, lead, difference)


def _missing(recording: Recording, answer: Answer, i: int) -> Place:
    return Place(i, Kind.MISSING, answer.token_ids[i], None, recording.spelled(answer.token_ids[i]), "")


def _difference(answer: Answer, i: int, said: Said) -> float | None:
    """Of the likely tokens that both sides have a log probability of, the largest difference."""
    rows = zip(answer.top_ids[i].tolist(), answer.top_logprobs[i].tolist(), strict=True)
    found = [said.logprobs[t] - logprob for t, logprob in rows if t in said.logprobs and (logprob >= LIKELY or t == answer.token_ids[i])]
    return max(found, key=abs, default=None)


def _first_layer(answer: Answer, got: Array | None, position: int, tolerance: float) -> FirstLayer | None:
    """The first layer whose output is off at or before a position of the answer, and there the first position."""
    assert answer.hidden is not None
    assert got is not None
    rows = len(answer.prompt_token_ids) + position
    wanted, seen = answer.hidden[:, :rows].astype(np.float64), got[:, :rows].astype(np.float64)
    if wanted.shape != seen.shape:
        return None
    scale = np.maximum(np.abs(wanted).max(-1), 1e-30)
    errors = np.nan_to_num(np.abs(wanted - seen).max(-1) / scale, nan=np.inf)
    for layer, row in enumerate(errors):
        if (over := np.flatnonzero(row > tolerance)).size:
            return FirstLayer(layer, int(over[0]), float(row[over[0]]))
    return None
