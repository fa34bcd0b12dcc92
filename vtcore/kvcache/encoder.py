"""Groups that keep what an encoder said: one entry for each token of its input, written in a sequence's first forward, then only read."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.kvcache.cache import Paged
from vtcore.kvcache.chain import Chain
from vtcore.kvcache.pool import PagePool
from vtcore.kvcache.tables import Copy, Finder, Found

Array = np.ndarray[Any, Any]
FOREVER = 1 << 62


class EncoderRule:
    """Pages of `size` entries. How many a sequence needs follows from its encoder's input, not from its own length; nothing is found again,
    in any group: what a decoder's tokens leave depends on the encoder's input too, for which a key of tokens doesn't stand."""

    def __init__(self, spec: Paged, size: int) -> None:
        self.spec, self.size = spec, size

    def count(self, entries: int) -> int:
        """Pages that so many entries begin."""
        return -(-entries // self.size)

    def most(self, tokens: int, longest_step: int) -> int:
        return self.count(self.spec.longest)

    wanted = most

    def longest(self, chain: Chain, limit: int, known: int, pool: Finder) -> int:
        return 0

    def found(self, chain: Chain, length: int, known: int, pool: Finder) -> Found:
        return Found()

    def table(self, pool: PagePool, found: Found | None = None) -> EncoderTable:
        return EncoderTable(self, pool)


class EncoderTable:
    """All pages from the first forward on, until the sequence ends. `length`: entries; whoever begins the sequence says how many."""

    def __init__(self, rule: EncoderRule, pool: PagePool) -> None:
        self.rule, self.pool, self.length = rule, pool, 0
        self.pages: list[int] = []
        self.copies: list[Copy] = []

    def missing(self, tokens: int) -> int:
        return self.rule.count(self.length) - len(self.pages)

    def grow(self, tokens: int) -> None:
        self.pages += self.pool.take(self.missing(tokens))

    def drop(self, computed: int) -> None:
        pass  # every token looks at all of it

    def prepare(self, chain: Chain | None, computed: int, new: int) -> int:
        return FOREVER

    def settle(self, chain: Chain | None, begin: int, end: int) -> bool:
        return False

    def read(self, computed: int) -> list[int]:
        return self.pages

    def slots(self, computed: int, new: int) -> Array:
        """Where each of the encoder's tokens writes, in the sequence's first forward; none later."""
        entries = np.arange(0 if computed else self.length)
        return np.array(self.pages, np.int64)[entries // self.rule.size] * self.rule.size + entries % self.rule.size

    def held(self) -> list[int]:
        return self.pages

    def release(self) -> None:
        self.pool.release(reversed(self.pages))
        self.pages = []
