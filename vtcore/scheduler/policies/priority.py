"""By the priority that a request came with, the lowest number first; of equals, the first that came."""

from __future__ import annotations

from typing import ClassVar

from vtcore.request import Request
from vtcore.scheduler.policies.fcfs import FirstCome, Rank


class Priority(FirstCome):
    """Those of a low priority wait for as long as others come before them: that is what they were given it for."""

    name: ClassVar[str] = "priority"

    def rank(self, request: Request) -> Rank:
        return request.submission.priority, request.arrival

    def gives_way(self, running: Request, request: Request, threshold: int) -> bool:
        return running.submission.priority - request.submission.priority > threshold
