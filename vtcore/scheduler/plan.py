"""What one step will do: a value, so that tests compare it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from vtcore.request import Request


class Scheduled(NamedTuple):
    """`num_tokens` of a sequence, from `begin`: the first one that is not computed yet."""

    request: Request
    begin: int
    num_tokens: int

    @property
    def end(self) -> int:
        return self.begin + self.num_tokens


@dataclass(frozen=True)
class Plan:
    """Who computes how many tokens in one forward, who lost its pages for it, and why the first that waits does."""

    scheduled: tuple[Scheduled, ...]
    preempted: tuple[Request, ...] = ()
    waits: str | None = None

    @property
    def num_tokens(self) -> int:
        """Of all sequences together."""
        return sum(s.num_tokens for s in self.scheduled)
