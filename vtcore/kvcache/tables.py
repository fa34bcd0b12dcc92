"""What one cache group needs of its pool as a sequence grows: a page for so many tokens, or one slot whatever the length."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from vtcore.kvcache.cache import Paged, Spec
from vtcore.kvcache.pool import NULL

Array = np.ndarray[Any, Any]
Table = list[int]  # a sequence's pages by place, NULL where one fell out of the window; or its one slot


class Tables(Protocol):
    """How tables of one group grow, and what a forward reads and writes through them."""

    def missing(self, table: Table, tokens: int) -> int:
        """Pages to take before the table serves so many tokens."""
        ...

    def outdated(self, table: Table, computed: int) -> int:
        """How many of the table's first pages no token after `computed` ones will look at."""
        ...

    def most(self, tokens: int, longest_step: int) -> int:
        """The most pages that a sequence of so many tokens ever holds at once, computing at most `longest_step` of them in a step."""
        ...

    def read(self, table: Table, computed: int) -> Table:
        """What a forward after `computed` tokens reads."""
        ...

    def slots(self, table: Table, computed: int, new: int) -> Array:
        """Where each of `new` tokens after `computed` ones writes, -1 for nowhere: integers [new]."""
        ...


class PageTables:
    """Pages of `size` entries. A slot is page * size + the place in it."""

    def __init__(self, spec: Paged, size: int) -> None:
        self.spec, self.size = spec, size

    def missing(self, table: Table, tokens: int) -> int:
        return max(0, self._pages(tokens) - len(table))

    def outdated(self, table: Table, computed: int) -> int:
        unseen = max(0, computed - self.spec.window + 1) if self.spec.window else 0
        return min(len(table), unseen // self.spec.every // self.size)

    def most(self, tokens: int, longest_step: int) -> int:
        if not self.spec.window:
            return self._pages(tokens)
        return min(self._pages(tokens), self._pages(self.spec.window - 1 + longest_step) + 1)

    def read(self, table: Table, computed: int) -> Table:
        return table

    def slots(self, table: Table, computed: int, new: int) -> Array:
        every, size = self.spec.every, self.size
        entries = ((i // every, (i + 1) % every == 0) for i in range(computed, computed + new))
        return np.array([table[e // size] * size + e % size if full else -1 for e, full in entries])

    def _pages(self, tokens: int) -> int:
        return -(-tokens // (self.spec.every * self.size))


class StateTables:
    """One slot a sequence: read before its first new token, written after its last."""

    def missing(self, table: Table, tokens: int) -> int:
        return 1 - len(table)

    def outdated(self, table: Table, computed: int) -> int:
        return 0

    def most(self, tokens: int, longest_step: int) -> int:
        return 1

    def read(self, table: Table, computed: int) -> Table:
        return table if computed else [NULL]  # a slot that somebody else had holds his state; the one of zeros does not

    def slots(self, table: Table, computed: int, new: int) -> Array:
        return np.array([-1] * (new - 1) + table)


def tables_of(spec: Spec, size: int) -> Tables:
    """The kind for a spec."""
    if not isinstance(spec, Paged):
        return StateTables()
    if spec.of != "text":
        raise NotImplementedError(f"pages of {spec.of!r}: only the text's own tokens have pages")
    return PageTables(spec, size)
