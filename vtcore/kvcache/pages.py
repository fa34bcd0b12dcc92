"""Groups that keep an entry for each token, or for every few of them, in pages: full attention, windows, chunks, latents, folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.kvcache.cache import Paged
from vtcore.kvcache.chain import Chain
from vtcore.kvcache.pool import NULL, PagePool
from vtcore.kvcache.tables import Copy, Finder, Found

Array = np.ndarray[Any, Any]


class PageRule:
    """Pages of `size` entries. A slot is page * size + the place in it."""

    def __init__(self, spec: Paged, size: int) -> None:
        self.spec, self.size = spec, size
        self.span = spec.every * size  # tokens of a page

    def first(self, computed: int) -> int:
        """The first token that any token after `computed` ones looks at."""
        if self.spec.chunk:
            return computed // self.spec.chunk * self.spec.chunk
        return max(0, computed - self.spec.window + 1) if self.spec.window else 0

    def count(self, tokens: int) -> int:
        """Pages that so many tokens begin."""
        return -(-tokens // self.span)

    def most(self, tokens: int, longest_step: int) -> int:
        near = self.spec.chunk or self.spec.window
        return min(self.count(tokens), self.count(near - 1 + longest_step) + 1) if near else self.count(tokens)

    wanted = most

    def longest(self, chain: Chain, limit: int, known: int, pool: Finder) -> int:
        if self.spec.window or self.spec.chunk:
            return self._descend(chain, chain.below(limit), known, pool)
        whole = 0
        while whole + self.span <= limit and pool.find(chain.key(whole + self.span)) is not None:
            whole += self.span
        length = chain.below(min(limit, whole + self.span - 1))
        if self._page(chain, whole // self.span, length, known, pool) is not None:
            return length
        while length - whole >= self.spec.every and pool.find(chain.key(length)) is None:  # longer ones have been looked for
            length = chain.below(length - 1)
        return max(length, whole)

    def found(self, chain: Chain, length: int, known: int, pool: Finder) -> Found:
        first, whole = self.first(length) // self.span, length // self.span
        pages = [self._page(chain, place, (place + 1) * self.span, known, pool) for place in range(first, whole)]
        assert None not in pages, f"{length} tokens are not there"
        partial = self._page(chain, whole, length, known, pool) if length % self.span else None
        return Found([NULL] * first + [page or NULL for page in pages], partial or None)

    def table(self, pool: PagePool, found: Found | None = None) -> PageTable:
        return PageTable(self, pool, found or Found())

    def _descend(self, chain: Chain, length: int, known: int, pool: Finder) -> int:
        """From the right to the left, since only the last pages before a length are looked at."""
        while length > 0:
            places = range((length - 1) // self.span, self.first(length) // self.span - 1, -1)
            ends = ((p, min(length, (p + 1) * self.span)) for p in places)
            lacks = next((p for p, end in ends if self._page(chain, p, end, known, pool) is None), None)
            if lacks is None:
                return length
            length = chain.below(min(length, (lacks + 1) * self.span) - 1)
        return 0

    def _page(self, chain: Chain, place: int, length: int, known: int, pool: Finder) -> int | None:
        """A page with the sequence's entries from `place` up to a length; others may follow in it. NULL where there are none yet."""
        begin = place * self.span
        if length - begin < self.spec.every:
            return NULL
        if (page := pool.find(chain.key(length))) is not None:
            return page
        longer = chain.lengths(length, min(known, begin + self.span))
        return next((page for at in longer if (page := pool.find(chain.key(at))) is not None), None)


class PageTable:
    """Pages by place, NULL where one fell out of the window."""

    def __init__(self, rule: PageRule, pool: PagePool, found: Found) -> None:
        self.rule, self.pool, self.pages = rule, pool, found.pages
        pool.share(self.pages)
        self.copies: list[Copy] = []
        if found.partial is not None:
            pool.share([found.partial])  # until it is copied
            [own] = pool.take(1)
            self.pages.append(own)
            self.copies.append((found.partial, own))

    def missing(self, tokens: int) -> int:
        return max(0, self.rule.count(tokens) - len(self.pages))

    def grow(self, tokens: int) -> None:
        if missing := self.missing(tokens):
            self.pages += self.pool.take(missing)

    def drop(self, computed: int) -> None:
        count = min(len(self.pages), self.rule.first(computed) // self.rule.span)
        if count and self.pages[count - 1] != NULL:
            self.pool.release(reversed(self.pages[:count]))
            self.pages[:count] = [NULL] * count

    def prepare(self, chain: Chain | None, computed: int, new: int) -> int:
        return len(self.pages) * self.rule.span

    def settle(self, chain: Chain | None, begin: int, end: int) -> bool:
        self._copied()
        if chain is not None:
            for length in chain.lengths(begin, end):
                if page := self.pages[(length - 1) // self.rule.span]:
                    self.pool.keep(page, chain.key(length))
        return False

    def read(self, computed: int) -> list[int]:
        return self.pages

    def slots(self, computed: int, new: int) -> Array:
        every, size = self.rule.spec.every, self.rule.size
        if new == 1 and every == 1:
            return np.array([self.pages[computed // size] * size + computed % size])
        at = np.arange(computed, computed + new)
        entries, pages = at // every, np.array(self.pages)
        return np.where((at + 1) % every == 0, pages[entries // size] * size + entries % size, -1)

    def held(self) -> list[int]:
        return self.pages + [source for source, _ in self.copies]

    def release(self) -> None:
        self._copied()
        self.pool.release(reversed(self.pages))
        self.pages = []

    def _copied(self) -> None:
        if self.copies:
            self.pool.release(source for source, _ in self.copies)
            self.copies = []
