"""What has come of one prompt so far, put together from its deltas."""

from __future__ import annotations

from dataclasses import dataclass, field

from vtcore.outputs import Delta, Logprobs


@dataclass
class Sequence:
    """One of a prompt's n sequences."""

    index: int
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[Logprobs] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    def add(self, delta: Delta) -> None:
        """Append what a step added."""
        self.text += delta.text
        self.token_ids += delta.token_ids
        self.logprobs += delta.logprobs or []
        if delta.finish_reason is not None:
            self.finish_reason, self.stop_reason = delta.finish_reason, delta.stop_reason


class Gathered:
    """All sequences of a prompt."""

    def __init__(self, count: int) -> None:
        self.sequences = [Sequence(i) for i in range(count)]

    def add(self, delta: Delta) -> None:
        """Append what a step added to one of them."""
        self.sequences[delta.index].add(delta)

    @property
    def tokens(self) -> int:
        """Generated so far."""
        return sum(len(s.token_ids) for s in self.sequences)
