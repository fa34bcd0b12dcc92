"""Which pages each sequence holds: one table a cache group, begun from what is found of sequences before, and grown before a forward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.kvcache.below import Below
from vtcore.kvcache.budget import Budget
from vtcore.kvcache.cache import Paged, Spec
from vtcore.kvcache.chain import Chain
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.encoder import EncoderRule, EncoderTable
from vtcore.kvcache.hashing import Hasher
from vtcore.kvcache.identity import Identity
from vtcore.kvcache.pages import PageRule
from vtcore.kvcache.pool import NULL, PagePool
from vtcore.kvcache.states import StateRule
from vtcore.kvcache.stats import CacheStats, PoolStats
from vtcore.kvcache.tables import Finder, Found, Rule, Table

Array = np.ndarray[Any, Any]
Key = Hashable  # whatever stands for a sequence
NOTHING: Mapping[str, int] = {}


@dataclass
class Held:
    """One sequence's tables. `room`: so many tokens it may have before a table has anything to do. `due`: a table has something to do
    after the next forward, whatever that computes."""

    chain: Chain | None
    tables: dict[str, Table]
    room: int = 0
    due: bool = True


class KVCacheManager:
    """A pool and the sequences' tables for every group. With a window, pages that fell out of it go back as the sequence grows.

    `pages` counts each group's pages (or slots), the page of zeros among them. `config` is a CacheConfig, or entries a page: then nothing
    is found again. `below`: what stands behind the pools. `budget`: bytes that they share; without one each has the memory of its pages."""

    def __init__(
        self,
        groups: Mapping[str, Spec],
        pages: Mapping[str, int],
        config: CacheConfig | int,
        below: Below | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.config = CacheConfig(config, enable_prefix_caching=False) if isinstance(config, int) else config
        self.groups = {name: rule_of(spec, self.config) for name, spec in groups.items()}
        self._paged = {name: rule for name, rule in self.groups.items() if isinstance(rule, PageRule)}
        self.budget = budget
        self.pools = {name: PagePool(pages[name]) if budget is None else budget.pool(name, pages[name]) for name in groups}
        self._hasher = Hasher(self.config.prefix_caching_hash_algo) if self.config.enable_prefix_caching else None
        self.below = below or Below()
        self.below.attach(self.pools)
        self._held: dict[Key, Held] = {}
        self._counts = Counter[str]()

    @property
    def block_size(self) -> int:
        """Entries a page."""
        return self.config.block_size

    def chain(self, tokens: Callable[[int, int], list[int]], prompt: int, forks: bool, identity: Identity) -> Chain | None:
        """The keys of a sequence's content, for whoever keeps them beside it; None where nothing is found again."""
        return None if self._hasher is None else Chain(self._hasher, self.config.unit, tokens, prompt, forks, identity)

    def lookup(self, chain: Chain | None, limit: int) -> int:
        """Of how many tokens, up to `limit`, every group has what the ones after them look at, in its pool or below."""
        return 0 if chain is None else self._agreed(chain, limit, self.groups, self.below.finders())

    def admit(
        self, key: Key, chain: Chain | None, limit: int, tokens: int, longest_step: int, *, reads: bool = True, encoded: int = 0
    ) -> int | None:
        """Begin a sequence of `tokens` tokens, of which a step computes at most `longest_step`: the number of tokens, up to `limit`, that
        it needs not compute. None, and nothing held, where the free pages don't suffice. Without `reads` it takes nothing over.
        `encoded`: tokens of its encoder's input."""
        while True:
            finders = self.below.finders()
            if (fits := self._fitting(chain if reads else None, limit, tokens, longest_step, finders)) is None:
                return None
            length, found = fits
            with self._kept(found):
                here = self.below.bring(found, finders)
                if here is not None:  # else a tier lost some of it: look again
                    self._held[key] = Held(chain, {n: rule.table(self.pools[n], here[n]) for n, rule in self.groups.items()})
                    self._encoder(key, encoded)
                    self.below.admitted(chain, finders, length)
                    return length

    def count(self, asked: int, found: int, *, preempted: bool) -> None:
        """A sequence that could have found `asked` tokens found so many."""
        kind = "preempted_" if preempted else ""
        self._counts[kind + "queries"] += asked
        self._counts[kind + "hits"] += found

    def allocate_slots(self, key: Key, computed: int, new: int) -> bool:
        """Pages for `new` tokens after `computed` ones, in every group or in none: False where a pool has too few."""
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = Held(None, {n: rule.table(self.pools[n]) for n, rule in self.groups.items()})
        tokens = computed + new
        if tokens <= held.room:
            return True
        for table in held.tables.values():
            table.drop(computed)
        if not self.fits({name: table.missing(tokens) for name, table in held.tables.items()}):
            return False
        for table in held.tables.values():
            table.grow(tokens)
        held.room = min((table.prepare(held.chain, computed, new) for table in held.tables.values()), default=0)
        return True

    def settle(self, key: Key, begin: int, end: int) -> None:
        """The tokens [begin, end) are computed, or will be before whatever is planned from now on: others may find what they leave."""
        held = self._held[key]
        if held.due or (held.chain is not None and held.chain.ends(begin, end)):
            again = [table.settle(held.chain, begin, end) for table in held.tables.values()]
            held.due = any(again)
            if held.chain is not None:
                self.below.settled(held.chain, begin, end)

    def copies(self, keys: Iterable[Key]) -> Iterator[tuple[str, int, int]]:
        """What must be copied before these sequences' next forward: a group's name, from which page, into which."""
        for key in keys:
            if (held := self._held[key]).due:
                yield from ((name, *copy) for name, table in held.tables.items() for copy in table.copies)

    def free(self, key: Key) -> None:
        """Give back all that a sequence holds, its last pages first; nothing where it holds none."""
        if (held := self._held.pop(key, None)) is not None:
            for table in held.tables.values():
                table.release()

    def launch(self) -> None:
        """A step begins to compute: pages that are given back are not taken before it has landed."""
        for pool in self.pools.values():
            pool.launch()

    def land(self) -> None:
        """It is done."""
        for pool in self.pools.values():
            pool.land()

    def forget(self, slots: Mapping[str, Array], copies: Iterable[tuple[str, int, int]] = ()) -> None:
        """Nobody knows what stands in these slots, by group, nor what became of these copies: none of their pages is found again."""
        for name, written in slots.items():
            for page in np.unique(written[written >= 0] // self.groups[name].size).tolist():
                self.pools[name].forget(page)
        for name, _, page in copies:
            self.pools[name].forget(page)

    def gain(self, keys: Iterable[Key]) -> dict[str, int]:
        """By group, the pages that would be free if these sequences gave theirs back."""
        counts = {name: Counter[int]() for name in self.pools}
        for key in keys:
            for name, table in self._held[key].tables.items():
                counts[name].update(page for page in table.held() if page != NULL)
        return {name: sum(n == self.pools[name].holders(page) for page, n in counted.items()) for name, counted in counts.items()}

    def fits(self, needs: Mapping[str, int], gain: Mapping[str, int] = NOTHING) -> bool:
        """Whether every group can hand out so many pages, once so many that are held were given back."""
        if self.budget is not None:
            return self.budget.fits(needs, gain)
        return all(n <= self.pools[name].num_free + gain.get(name, 0) for name, n in needs.items())

    def lacks(self, needs: Mapping[str, int]) -> int:
        """Bytes that so many pages take more than all groups share; 0 where they share none."""
        return 0 if self.budget is None else max(0, self.budget.cost(needs) - self.budget.nbytes)

    def tables(self, name: str) -> Iterator[Table]:
        """Every sequence's table of a group."""
        yield from (held.tables[name] for held in self._held.values())

    def read(self, key: Key, name: str, computed: int) -> list[int]:
        """The pages of a group that a sequence's forward after `computed` tokens reads."""
        return self._held[key].tables[name].read(computed)

    def slots(self, key: Key, name: str, computed: int, new: int) -> Array:
        """Where each of `new` tokens after `computed` ones writes: integers [new], -1 for nowhere."""
        return self._held[key].tables[name].slots(computed, new)

    def reset(self) -> bool:
        """Nothing is found any more. Refused, with False, while a sequence holds pages."""
        if self._held:
            return False
        for pool in self.pools.values():
            pool.forget_all()
        self.below.reset()
        return True

    @property
    def usage(self) -> float:
        """Of the fullest pool, or of the bytes that all share, from 0 to 1."""
        if self.budget is not None:
            return 1 - self.budget.spare / self.budget.nbytes
        return max((pool.usage for pool in self.pools.values()), default=0.0)

    def stats(self) -> CacheStats:
        """What is held, free and kept now, and what was found so far."""
        pools = {n: PoolStats(p.num_held + p.num_free, p.num_held, p.num_free, p.num_cached, p.evictions) for n, p in self.pools.items()}
        return CacheStats(pools, self.usage, **self._counts, tiers=self.below.stats())

    def _agreed(self, chain: Chain, limit: int, groups: Mapping[str, Rule], finders: Mapping[str, Finder]) -> int:
        length, before = chain.below(limit) if groups else 0, -1
        while length != before:
            before = length
            for name, rule in groups.items():
                length = rule.longest(chain, length, limit, finders[name]) if length else 0
        return length

    def _fitting(
        self, chain: Chain | None, limit: int, tokens: int, longest_step: int, finders: Mapping[str, Finder]
    ) -> tuple[int, dict[str, Found]] | None:
        """The longest length with all that its tokens left, where the pages for it suffice, or nothing; None where not even they do."""
        longest = 0
        if chain is not None:
            longest = self._agreed(chain, limit, self.groups, finders)
            if len(self._paged) < len(self.groups):
                chain.branch = self._agreed(chain, limit, self._paged, finders)
        for length in (longest, 0) if longest else (0,):  # what it only copies or reads once takes a page too: at worst it computes all
            found = {n: rule.found(chain, length, limit, finders[n]) if chain and length else Found() for n, rule in self.groups.items()}
            if self.fits({name: self._needs(name, found[name], tokens, longest_step) for name in self.groups}):
                return length, found
        return None

    def _needs(self, name: str, found: Found, tokens: int, longest_step: int) -> int:
        """Pages that are free now, or kept for nobody, and would not be any more."""
        pool = self.pools[name]
        pages = [page for page in found.pages if NULL < page < pool.pages]  # others are still to be brought
        looked_at = (*pages, *([] if found.partial is None else [found.partial]))
        leaving = sum(page >= pool.pages or pool.is_free(page) for page in looked_at)
        return self.groups[name].most(tokens, longest_step) - len(pages) + leaving

    def _encoder(self, key: Key, encoded: int) -> None:
        for table in self._held[key].tables.values():
            if isinstance(table, EncoderTable):
                table.length = encoded

    @contextmanager
    def _kept(self, found: Mapping[str, Found]) -> Iterator[None]:
        """Inside, no group takes the memory of what was found in another."""
        if self.budget is None:
            yield
            return
        pages = {n: [p for p in (*f.pages, f.partial or NULL) if p < self.pools[n].pages] for n, f in found.items()}
        for name, mine in pages.items():
            self.pools[name].share(mine)
        try:
            yield
        finally:
            for name, mine in pages.items():
                self.pools[name].release(reversed(mine))


def rule_of(spec: Spec, config: CacheConfig) -> Rule:
    """The kind for a spec."""
    if not isinstance(spec, Paged):
        return StateRule(config.state_every if config.enable_prefix_caching else 0)
    if spec.of == "encoder":
        return EncoderRule(spec, config.block_size)
    if spec.of != "text":
        raise ArgumentError(f"a layer keeps pages of {spec.of!r}; there are pages of text, and of an encoder")
    return PageRule(spec, config.block_size)
