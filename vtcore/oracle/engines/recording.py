"""Another recording as an engine: what it says along an answer for as long as its own tokens are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtcore.oracle.followed import Followed, NotComparedError, Said
from vtcore.oracle.recording import Answer, Recording


class RecordedEngine:
    """Answers are found by their prompts' ids. A recording can't be forced onto other tokens, so nothing is said after it left them."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._answers = {a.prompt_token_ids: a for a in recording.answers}

    def describe(self) -> Mapping[str, str]:
        """What was recorded of the engine."""
        return {"name": "recording", **{f"recorded {n}": v for n, v in self.recording.engine.items()}}

    def follow(self, answer: Answer) -> Followed:
        """Up to and including the first token that differs."""
        own = self._find(answer)
        pairs = enumerate(zip(own.token_ids, answer.token_ids, strict=False))
        parted = next((i for i, (a, b) in pairs if a != b), None)
        same = min(len(own.token_ids), len(answer.token_ids)) if parted is None else parted + 1
        said = tuple(Said(t, _alternatives(own, i)) for i, t in enumerate(own.token_ids[:same]))
        missing = len(answer.token_ids) - same
        why = "the other recording " + ("ends" if parted is None else "goes on from a token of its own")
        problem = f"{why}: {missing} tokens after it can't be held against each other" if missing else None
        hidden = None if own.hidden is None else own.hidden[:, : len(own.prompt_token_ids) + same - 1]
        return Followed((*said, *[None] * missing), "its recorded tokens, until they part", problem, forced=False, hidden=hidden)

    def _find(self, answer: Answer) -> Answer:
        own = self._answers.get(answer.prompt_token_ids)
        if own is not None:
            return own
        twin = next((a for a in self.recording.answers if a.text is not None and a.text == answer.text), None)
        if twin is not None:
            raise NotComparedError(tokenised_differently(answer.prompt_token_ids, twin.prompt_token_ids))
        raise NotComparedError("the other recording has no such prompt")

    def close(self) -> None:
        """It holds nothing."""


def _alternatives(answer: Answer, i: int) -> dict[int, float]:
    return dict(zip(answer.top_ids[i].tolist(), answer.top_logprobs[i].tolist(), strict=True))


def tokenised_differently(wanted: Sequence[int], got: Sequence[int]) -> str:
    """Where two sequences of ids part, in words."""
    at = next((i for i, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got)))
    a, b = (ids[at] if at < len(ids) else "nothing" for ids in (wanted, got))
    return f"it tokenises the prompt differently: {len(got)} tokens instead of {len(wanted)}, from position {at} on ({b} instead of {a})"
