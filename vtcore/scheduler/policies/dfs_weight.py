"""Depth first by weight: of the tree of the prefixes that wait, the branch with most requests is served to its end before the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from vtcore.request import Request
from vtcore.scheduler.policies.lpm import LongestPrefix


class DepthFirst(LongestPrefix):
    """SGLang's dfs-weight. A node is a block in the cache; its weight is how many waiting requests find it."""

    name: ClassVar[str] = "dfs-weight"

    def sorted(self, matched: dict[Request, int]) -> list[Request]:
        weight = Counter(key for request, found in matched.items() for key in _path(request, found))
        place = {key: i for i, key in enumerate(weight)}  # of equal weights, the branch that was met first

        def branch(request: Request) -> list[tuple[int, int]]:
            return [(-weight[key], place[key]) for key in _path(request, matched[request])] + [(1, 0)]

        return sorted(matched, key=branch)


def _path(request: Request, found: int) -> Iterator[bytes]:
    """The keys of the blocks that a request finds, from the root."""
    if request.chain is not None:
        yield from (request.chain.key(n) for n in range(request.chain.unit, found + 1, request.chain.unit))
