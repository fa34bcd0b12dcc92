"""Which pages each sequence holds: one table a cache group, grown before a forward and given back after the last."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from vtcore.kvcache.cache import Spec
from vtcore.kvcache.pool import NULL, PagePool
from vtcore.kvcache.tables import Table, tables_of

Array = np.ndarray[Any, Any]
Key = Hashable  # whatever stands for a sequence


class KVCacheManager:
    """A pool and the sequences' tables for every group. With a window, pages that fell out of it go back as the sequence grows.

    `pages` counts each group's pages (or slots), the page of zeros among them; `block_size` is entries a page."""

    def __init__(self, groups: Mapping[str, Spec], pages: Mapping[str, int], block_size: int) -> None:
        self.block_size = block_size
        self.groups = {name: tables_of(spec, block_size) for name, spec in groups.items()}
        self.pools = {name: PagePool(pages[name]) for name in groups}
        self._tables: dict[Key, dict[str, Table]] = {}

    def allocate_slots(self, key: Key, computed: int, new: int) -> bool:
        """Pages for `new` tokens after `computed` ones, in every group or in none: False where a pool has too few."""
        tables = self._tables.setdefault(key, {name: [] for name in self.groups})
        for name, group in self.groups.items():
            self._drop(name, tables[name], group.outdated(tables[name], computed))
        missing = {name: group.missing(tables[name], computed + new) for name, group in self.groups.items()}
        if any(n > self.pools[name].num_free for name, n in missing.items()):
            return False
        for name, n in missing.items():
            tables[name] += self.pools[name].take(n)
        return True

    def fits(self, tokens: int, longest_step: int) -> bool:
        """Whether the free pages hold a new sequence of so many tokens, of which a step computes at most `longest_step`."""
        return all(group.most(tokens, longest_step) <= self.pools[name].num_free for name, group in self.groups.items())

    def free(self, key: Key) -> None:
        """Give back all that a sequence holds, its last pages first; nothing where it holds none."""
        for name, table in self._tables.pop(key, {}).items():
            self.pools[name].release(reversed(table))

    def read(self, key: Key, name: str, computed: int) -> Table:
        """The pages of a group that a sequence's forward after `computed` tokens reads."""
        return self.groups[name].read(self._tables[key][name], computed)

    def slots(self, key: Key, name: str, computed: int, new: int) -> Array:
        """Where each of `new` tokens after `computed` ones writes: integers [new], -1 for nowhere."""
        return self.groups[name].slots(self._tables[key][name], computed, new)

    @property
    def usage(self) -> float:
        """Of the fullest pool, from 0 to 1."""
        return max((pool.usage for pool in self.pools.values()), default=0.0)

    def _drop(self, name: str, table: Table, count: int) -> None:
        self.pools[name].release(reversed(table[:count]))
        table[:count] = [NULL] * count
