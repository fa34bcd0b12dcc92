"""Cascade attention: tokens of several requests that begin with the same pages see those together, and then each goes on by itself.

The other way, to attend over what is shared by itself and to merge by log-sum-exp (Hydragen, Juravsky and others, 2024), adds up in another
order. Here each row's sums stay in the order of its own sequence: company changes no bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vtcore.providers.portable.kernels.attention import Attention, Keys, Row
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import I64, Val, Var

ALIKE = 4  # pages with which two requests must begin alike
Owned = tuple[Val, Val]  # a token, and whose it is
Places = tuple[Keys, list[Row]]  # where the rows of some tokens are, and the pages of the first


@dataclass(frozen=True)
class Seen:
    """What a call says of who sees which pages."""

    table: Val
    columns: Val  # of the table
    until: Val
    whole: Val  # whether a token sees all before it: neither window nor chunk
    page: int


class Onward(Attention):
    """Rows that go on where others' state was left: their sums, their peaks from a lane on, and their totals."""

    def __init__(self, k: Lanes, places: Places, sums: Val, peaks: Val, totals: Val) -> None:
        self.left = sums, peaks, totals
        super().__init__(k, *places)

    def _room(self) -> Val:
        return self.left[0]

    def _start(self) -> tuple[Var, list[Var]]:
        k, (_, peaks, totals) = self.k, self.left
        return k.var(k.load(peaks, k.VF)), [k.var(k.load(totals + r * k.width, k.VF)) for r in range(len(self.rows))]


class Cascade:
    """The emitter of one task: up to `side` neighbouring tokens, over the keys of one head."""

    def __init__(self, k: Lanes, seen: Seen, places: Callable[[list[Owned]], Places], side: int, heads: int) -> None:
        self.k, self.seen, self.places, self.side, self.heads = k, seen, places, side, heads
        self.owners, self.totals = k.stack(side * 8), k.stack(side * heads * k.width)
        self.peaks = k.stack(2 * k.width)  # a register more: the last token's are read as one

    def run(self, token: Val, count: Val, owner: Callable[[Val], Val]) -> None:
        """`count` tokens from `token` on. `owner` says whose a token is, -1: nobody's."""
        k = self.k
        for i in k.range(count):
            k.store(self.owners + i * 8, owner(token + i))
        shared = self._shared(token, count)
        sums = self._together(token, count, shared)
        for i in self._present(count):
            row = i * self.heads
            state = sums + row * (self.columns * 4), self.peaks + row * 4, self.totals + row * k.width
            one = Onward(k, self.places([self._owned(token, i)]), *state)
            first, last = one.pages()
            for p in k.range(k.max(first, shared), last):
                one.see(p)
            one.finish()

    def _together(self, token: Val, count: Val, shared: Val) -> Val:
        """See the shared pages, and leave the state; where the sums lie. The last token fills up a side that isn't full."""
        k = self.k
        them = Attention(k, *self.places([self._owned(token, k.min(k.lift(j), count - 1)) for j in range(self.side)]))
        for p in k.range(0, shared):
            them.see(p)
        k.store(self.peaks, them.peaks.get())
        for r, total in enumerate(them.totals):
            k.store(self.totals + r * k.width, total.get())
        self.columns = them.columns
        return them.sums

    def _shared(self, token: Val, count: Val) -> Val:
        """How many pages all tokens begin with and see whole: 0 where so few of a side are there that each is faster alone."""
        k = self.k
        shared = k.var(k.select((count * 2 > self.side) & self.seen.whole, self.seen.columns, k.lift(0)))
        for i in k.range(count):
            full = (k.integer(self.seen.until + (token + i) * 4) + 1) // self.seen.page
            shared.set(k.min(shared.get(), k.select(self._owner(i) > -1, full, k.lift(0))))
            with k.when(shared.get() > 0):
                shared.set(self._alike(self._row(k.lift(0)), self._row(i), shared.get()))
        return shared.get()

    def _alike(self, one: Val, other: Val, most: Val) -> Val:
        """How many pages, up to `most`, two tables begin with."""
        k, n = self.k, self.k.var(0)
        with k.loop(lambda: (n.get() < most) & _equal(k, one, other, k.min(n.get(), most - 1))):
            n.set(n.get() + 1)
        return n.get()

    def _row(self, i: Val) -> Val:
        return self.seen.table + self._owner(i) * self.seen.columns * 4

    def _owner(self, i: Val) -> Val:
        return self.k.load(self.owners + i * 8, I64)

    def _owned(self, token: Val, i: Val) -> Owned:
        """A token of nobody counts as the first request's: nobody reads what comes of it."""
        return token + i, self.k.max(self._owner(i), 0)

    def _present(self, count: Val) -> Iterator[Val]:
        for i in self.k.range(count):
            with self.k.when(self._owner(i) > -1):
                yield i


def _equal(k: Lanes, one: Val, other: Val, n: Val) -> Val:
    return k.integer(one + n * 4).eq(k.integer(other + n * 4))


def begin_alike(k: Lanes, table: Val, requests: Val, columns: Val) -> Val:
    """Whether two neighbouring requests begin with the same ALIKE pages, none of which is the page of zeros."""
    found = k.var(0)
    with k.when(columns > ALIKE - 1):
        for r in k.range(requests - 1):
            here, same = table + r * columns * 4, k.lift(1)
            for p in range(ALIKE):
                number, other = k.integer(here + p * 4), k.integer(here + (columns + p) * 4)
                same = k.select(number.eq(other) & (number > 0), same, k.lift(0))
            found.set(found.get() | same)
    return found.get() > 0
