"""Longest prefix match: whoever finds most of its prompt in the cache goes first, and of several that share what is not there yet, one.

SGLang's rule and its numbers, on hashes of blocks in place of its tree of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from vtcore.kvcache.chain import Chain
from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request
from vtcore.scheduler.policies.fcfs import FirstCome

LONGEST_QUEUE = 128  # with more waiting, looking would cost more than it saves: first come, first served
CHECK = 32  # who finds at most so many tokens in the cache is held against the others that wait
DEPRIORITIZE = 32  # who shares at least so many tokens with one before it, that the cache lacks, waits for that one
PATIENCE = 256  # sequences that may begin while one waits, before nobody may overtake it any more


class LongestPrefix(FirstCome):
    """Nobody starves: who has seen PATIENCE others begin is served in the order of arrival, before all others."""

    name: ClassVar[str] = "lpm"
    looks: ClassVar[bool] = True

    def order(self, waiting: Sequence[Request], running: Sequence[Request], kv: KVCacheManager) -> Iterable[Request]:
        if len(waiting) > LONGEST_QUEUE:
            return waiting
        patient = [r for r in waiting if r.overtaken < PATIENCE]
        matched = dict(self._matched(patient, running, kv))
        return [*(r for r in waiting if r.overtaken >= PATIENCE), *self.sorted(matched)]

    def sorted(self, matched: dict[Request, int]) -> list[Request]:
        """Requests by the tokens that they find."""
        return sorted(matched, key=lambda r: -matched[r])

    def _matched(self, waiting: Sequence[Request], running: Sequence[Request], kv: KVCacheManager) -> Iterator[tuple[Request, int]]:
        """Each request and the tokens that it finds; without those that wait for another which computes what they share."""
        coming = Coming(r for r in running if r.num_waiting_tokens > 1)
        for request in waiting:
            chain = request.chain
            found = kv.lookup(chain, request.num_tokens - 1) if request.reads_cache else 0
            if found <= CHECK and chain is not None:
                if coming.shared(chain, request.num_tokens) >= DEPRIORITIZE:
                    continue
                coming.add(chain, request.num_tokens)
            yield request, found


class Coming:
    """The keys of what is going to be computed: SGLang's simulated tree."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._keys: set[bytes] = set()
        for request in requests:
            if request.chain is not None:
                self.add(request.chain, request.num_tokens)

    def add(self, chain: Chain, tokens: int) -> None:
        """A sequence of so many tokens will be computed."""
        self._keys.update(chain.key(n) for n in range(chain.unit, tokens + 1, chain.unit))

    def shared(self, chain: Chain, tokens: int) -> int:
        """How many first tokens of a sequence are among it."""
        length = 0
        while length + chain.unit <= tokens and chain.key(length + chain.unit) in self._keys:
            length += chain.unit
        return length
