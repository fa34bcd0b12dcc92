"""First come, first served: the policy that the others change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request

Rank = tuple[int, ...]


class FirstCome:
    """Of equal rank is nobody. `looks`: it asks what the cache has."""

    name: ClassVar[str] = "fcfs"
    looks: ClassVar[bool] = False

    def rank(self, request: Request) -> Rank:
        """The lowest is served first, and loses its pages last. It never changes while a request lives."""
        return (request.arrival,)

    def order(self, waiting: Sequence[Request], running: Sequence[Request], kv: KVCacheManager) -> Iterable[Request]:
        """In which order those that wait, given by rank, are looked at in this step. Who is left out has to wait for another."""
        return waiting

    def gives_way(self, running: Request, request: Request, threshold: int) -> bool:
        """Whether one that runs may be preempted only for another to begin."""
        return False
