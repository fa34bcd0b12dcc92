"""What one step will do: a value, so that tests compare it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
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

    @property
    def whole(self) -> bool:
        """Whether it computes the last token that is known now."""
        return self.end == self.request.num_tokens


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

    def without(self, requests: Collection[Request]) -> Plan:
        """The rest."""
        return replace(self, scheduled=tuple(s for s in self.scheduled if s.request not in requests))
