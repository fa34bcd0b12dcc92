"""What the cache holds and what it saved, in numbers that can be read at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vtcore.kvcache.offload.tier import TierStats


@dataclass(frozen=True)
class PoolStats:
    """Pages of one group. held + free = total; what is cached is among the free ones."""

    total: int
    held: int
    free: int
    cached: int
    evictions: int


@dataclass(frozen=True)
class CacheStats:
    """queries and hits: tokens that admitted sequences asked for and found; those that came back after a preemption are counted apart.
    tiers: what pages are kept in besides, by name, the fastest first."""

    pools: Mapping[str, PoolStats] = field(default_factory=dict)
    usage: float = 0.0
    queries: int = 0
    hits: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
    tiers: Mapping[str, TierStats] = field(default_factory=dict)

    @property
    def evictions(self) -> int:
        """Of all groups."""
        return sum(pool.evictions for pool in self.pools.values())
