"""A plan while it is made: what is handed out so far, and what was taken back."""

from __future__ import annotations

from vtcore.request import Request
from vtcore.scheduler.budget import Budget
from vtcore.scheduler.plan import Plan, Scheduled


class TooEarlyError(Exception):
    """Somebody would have to give up pages that a step in flight writes."""


class Draft:
    """One step's: of the next one, or `ahead` of the end of the one in flight, which is the last for `ending` sequences."""

    def __init__(self, budget: Budget, *, ahead: bool = False, ending: int = 0) -> None:
        self.budget, self.ahead, self.ending = budget, ahead, ending
        self.scheduled: dict[Request, Scheduled] = {}
        self.preempted: list[Request] = []

    def add(self, request: Request, tokens: int) -> None:
        """A sequence computes so many."""
        self.scheduled[request] = Scheduled(request, request.num_computed_tokens, tokens)
        self.budget.spend(request, tokens)

    def take_back(self, request: Request) -> None:
        """A sequence is preempted: what it was given is there for others. Call it while the sequence's counts are as they were.

        Raises TooEarlyError in a plan ahead."""
        if self.ahead:
            raise TooEarlyError
        self.preempted.append(request)
        if (given := self.scheduled.pop(request, None)) is not None:
            self.budget.spend(request, given.num_tokens, -1)

    def plan(self, waits: str | None) -> Plan:
        """As it is now."""
        return Plan(tuple(self.scheduled.values()), tuple(self.preempted), waits)
