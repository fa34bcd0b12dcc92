"""What one cache group needs of its pool as a sequence grows, and what it finds there of sequences before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from vtcore.kvcache.chain import Chain
from vtcore.kvcache.pool import PagePool

Array = np.ndarray[Any, Any]
Copy = tuple[int, int]  # from a page into another


@dataclass(frozen=True)
class Found:
    """What a sequence can take over: `pages` by place, as they are (NULL where none is looked at), and one of which it needs a copy, or
    which it only reads once."""

    pages: list[int] = field(default_factory=list)
    partial: int | None = None


class Table(Protocol):
    """One sequence's pages in one group, on its way."""

    copies: list[Copy]  # that the next forward needs

    def missing(self, tokens: int) -> int:
        """Pages to take before the table serves so many tokens."""
        ...

    def grow(self, tokens: int) -> None:
        """Take them."""
        ...

    def drop(self, computed: int) -> None:
        """Give back what no token after `computed` ones will look at."""
        ...

    def prepare(self, chain: Chain | None, computed: int, new: int) -> int:
        """Before a forward of `new` tokens: how many tokens the sequence may have without anything to do here."""
        ...

    def settle(self, chain: Chain | None, begin: int, end: int) -> bool:
        """Once the forward of the tokens [begin, end) is on its way: what they leave can be found. True: call it for the next one too."""
        ...

    def read(self, computed: int) -> list[int]:
        """What a forward after `computed` tokens reads."""
        ...

    def slots(self, computed: int, new: int) -> Array:
        """Where each of `new` tokens after `computed` ones writes, -1 for nowhere: integers [new]."""
        ...

    def held(self) -> list[int]:
        """Every page that it holds; the page of zeros may be among them."""
        ...

    def release(self) -> None:
        """Give back everything."""
        ...


class Finder(Protocol):
    """Finds pages by what stands in them."""

    def find(self, key: bytes) -> int | None:
        """The page that a key leads to."""
        ...


class Rule(Protocol):
    """How one group's tables behave. `chain` holds the keys of a sequence's tokens, of which at least `known` are known."""

    size: int  # slots of a page

    def most(self, tokens: int, longest_step: int) -> int:
        """The most pages that a sequence of so many tokens ever needs at once, computing at most `longest_step` of them in a step."""
        ...

    def wanted(self, tokens: int, longest_step: int) -> int:
        """As `most`, with what it is worth to keep besides."""
        ...

    def longest(self, chain: Chain, limit: int, known: int, pool: Finder) -> int:
        """The largest length up to `limit` of which the pool has everything that the tokens after it look at."""
        ...

    def found(self, chain: Chain, length: int, known: int, pool: Finder) -> Found:
        """What the pool has for a length that `longest` gave."""
        ...

    def table(self, pool: PagePool, found: Found | None = None) -> Table:
        """A sequence's table, with what was found; it holds that from now on."""
        ...
