"""Who goes first: a policy a file."""

from vtcore.scheduler.policies.dfs_weight import DepthFirst
from vtcore.scheduler.policies.fcfs import FirstCome
from vtcore.scheduler.policies.lpm import LongestPrefix
from vtcore.scheduler.policies.priority import Priority

POLICIES: dict[str, type[FirstCome]] = {p.name: p for p in (FirstCome, Priority, LongestPrefix, DepthFirst)}

__all__ = ["POLICIES"]
