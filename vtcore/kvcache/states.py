"""Groups that keep one state a sequence, whatever its length, and the states after some lengths, so that sequences may begin from there."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.kvcache.chain import Chain
from vtcore.kvcache.config import STATES
from vtcore.kvcache.pool import NULL, PagePool
from vtcore.kvcache.tables import Copy, Finder, Found

Array = np.ndarray[Any, Any]
FOREVER = 1 << 62


class StateRule:
    """A state is kept after every `every` tokens, after the prompt's last whole unit, where the prompt forks, and where it left another
    one that was here before: a third may follow. 0: none is."""

    size = 1  # a slot is a page

    def __init__(self, every: int = 0) -> None:
        self.every = every

    def most(self, tokens: int, longest_step: int) -> int:
        return 1

    def wanted(self, tokens: int, longest_step: int) -> int:
        """Its own, and what it keeps: at most STATES, since a state is large."""
        return 1 + min(STATES, tokens // self.every + 1) if self.every else 1

    def longest(self, chain: Chain, limit: int, known: int, pool: Finder) -> int:
        length = chain.below(limit)
        while length > 0 and pool.find(chain.key(length)) is None:
            length = chain.below(length - 1)
        return max(0, length)

    def found(self, chain: Chain, length: int, known: int, pool: Finder) -> Found:
        return Found(partial=pool.find(chain.key(length)) if length else None)

    def table(self, pool: PagePool, found: Found | None = None) -> StateTable:
        return StateTable(self, pool, found or Found())

    def worth(self, chain: Chain, begin: int, end: int) -> list[int]:
        """The lengths in (begin, end] after which a state is kept, in rising order."""
        special = {(chain.prompt - 1) // chain.unit * chain.unit, chain.fork, chain.branch} - {0}
        regular = range((begin // self.every + 1) * self.every, end + 1, self.every)
        return sorted({*regular, *(n for n in special if begin < n <= end)})

    def next(self, chain: Chain, end: int) -> int:
        """The first such length after `end`."""
        regular = (end // self.every + 1) * self.every
        return (self.worth(chain, end, max(end, chain.prompt - 1)) or [regular])[0]


class StateTable:
    """A slot of its own, the one that the next forward begins from where that is another, and those that it will write besides."""

    def __init__(self, rule: StateRule, pool: PagePool, found: Found) -> None:
        self.rule, self.pool, self.own = rule, pool, NULL
        self.source = found.partial or NULL
        pool.share([self.source])
        self.copies: list[Copy] = []  # a state is read where it is kept
        self._kept: dict[int, int] = {}  # length -> slot

    def missing(self, tokens: int) -> int:
        return 0 if self.own else 1

    def grow(self, tokens: int) -> None:
        if not self.own:
            [self.own] = self.pool.take(1)

    def drop(self, computed: int) -> None:
        pass

    def prepare(self, chain: Chain | None, computed: int, new: int) -> int:
        """Slots for the states that are worth keeping, as far as some are free: a sequence never waits for one."""
        self._give_up()
        if chain is None or not self.rule.every:
            return FOREVER
        worth = [n for n in self.rule.worth(chain, computed, computed + new) if not self._kept_already(chain, n)]
        worth = worth[max(0, len(worth) - self.pool.num_free) :]
        self._kept = dict(zip(worth, self.pool.take(len(worth)), strict=True))
        return self.rule.next(chain, computed + new) - 1

    def settle(self, chain: Chain | None, begin: int, end: int) -> bool:
        kept, self._kept = self._kept, {}
        if chain is not None:
            for length, slot in kept.items():
                self.pool.keep(slot, chain.key(length))
        self.pool.release([self.source])
        self.source = kept.pop(end, NULL)  # a token writes one slot: the next forward begins from that one
        self.pool.release(kept.values())
        return self.source != NULL

    def read(self, computed: int) -> list[int]:
        return [self.source or self.own] if computed else [NULL]  # a slot that somebody else had holds his state; that of zeros doesn't

    def slots(self, computed: int, new: int) -> Array:
        slots = np.full(new, -1)
        slots[-1] = self.own
        for length, slot in self._kept.items():
            slots[length - computed - 1] = slot
        return slots

    def held(self) -> list[int]:
        return [self.own, self.source, *self._kept.values()]

    def release(self) -> None:
        self._give_up()
        self.pool.release([self.source, self.own])
        self.source = self.own = NULL

    def _kept_already(self, chain: Chain, length: int) -> bool:
        """As far as that is known: of a token that is still being chosen there is no key."""
        return chain.known(length) and self.pool.find(chain.key(length)) is not None

    def _give_up(self) -> None:
        self.pool.release(self._kept.values())
        self._kept = {}
