"""The emitter of attention over entries that are chosen one by one: registers of them take the place of pages."""

from __future__ import annotations

from collections.abc import Iterator

from vtcore.providers.portable.kernels.attention import Attention, Keys, Row
from vtcore.providers.portable.lanes import Lanes
from vtcore.providers.portable.value import Val

ALL = 0x7FFFFFFF  # no entry is behind this


class Chosen(Attention):
    """Query heads of one token. `chosen` is where its choices are, int32 [count]; `slots` how many entries a page has."""

    def __init__(
        self, k: Lanes, where: Keys, rows: list[Row], chosen: Val, count: Val, slots: int, before: Attention | None = None
    ) -> None:
        assert where.page == k.lanes, "a part of the choices is a register of them"
        self.chosen, self.count, self.slots = chosen, count, slots
        super().__init__(k, where, rows, before)

    def _range(self) -> tuple[Val, Val]:
        return self.k.lift(0), self.count - 1

    def _page(self, p: Val) -> Val:
        return p

    def _places(self, number: Val, slots: tuple[Val, Val] | None = None) -> Iterator[tuple[Val, Val, Val]]:
        """Of some choices, or of all in a register, those that name an entry, with its page and its place there."""
        k = self.k
        for slot in k.range(*(slots or (0, k.min(self.count - number * self.w.page, self.w.page)))):
            entry = k.integer(self.chosen + (number * self.w.page + slot) * 4)
            with k.when(entry > -1):
                yield slot, k.integer(self.w.table + entry // self.slots * 4), entry % self.slots

    def _entries(self, p: Val) -> list[Val]:
        k, left = self.k, self.k.min(self.count - p * self.w.page, self.w.page)
        return [k.select(k.first(left), k.some(self.chosen + p * (self.w.page * 4), k.VI, left), k.ints(-1))]
