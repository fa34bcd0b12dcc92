"""Pages that their pools have no room for, kept in tiers below, and brought back before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from vtcore.kvcache.events.log import EventLog
from vtcore.kvcache.offload.rows import Rows
from vtcore.kvcache.offload.tier import Address, Saved, Tier, TierStats
from vtcore.kvcache.offload.view import View
from vtcore.kvcache.pool import NULL, PagePool
from vtcore.kvcache.tables import Found

Kept = tuple[str, int, tuple[bytes, ...]]  # a group, one of its pages, and that one's keys


class Offload:
    """The tiers of one cache, the fastest first. What one gives up goes to the next.

    A page is copied out when its pool takes it for something else, and what a sequence finds in a tier is copied into fresh pages when it
    is admitted: both while no forward that could touch those pages is running."""

    def __init__(self, rows: Rows, tiers: Sequence[Tier], events: EventLog | None = None) -> None:
        self.rows, self.tiers, self.events = rows, tiers, events

    def view(self, group: str, pool: PagePool) -> View:
        """What can be found of a group, here and in its pool."""
        return View(pool, group, self.tiers)

    def save(self, group: str, page: int, keys: Sequence[bytes]) -> None:
        """A page with keys is about to be written over."""
        if not self.tiers[0].holds(Address(group, keys[-1])):
            pages = [Saved(group, tuple(keys), self.rows.read(group, page))]
            for tier in self.tiers:
                pages = [gone for page_ in pages for gone in self._write(tier, page_)]

    def bring(self, group: str, found: Found, view: View) -> Found | None:
        """Copy into the pool what only a tier has: the same with the pool's own numbers. None where a tier lost a page meanwhile; what it
        said is outdated then. Nobody holds the pages yet: whoever asked takes them before anybody else can."""
        numbers = [*found.pages, *([] if found.partial is None else [found.partial])]
        if not any(n in view.keys for n in numbers):
            return found
        pool = view.pool
        pool.share(n for n in numbers if n not in view.keys)  # so that they are not taken for the others
        wanted = [n for n in numbers if n in view.keys]
        pages = dict(zip(wanted, pool.take(len(wanted)), strict=True))
        try:
            whole = all(self._fill(Address(group, view.keys[n]), page, pool) for n, page in pages.items())
        finally:
            pool.release(pages.get(n, n) for n in reversed(numbers))
        partial = None if found.partial is None else pages.get(found.partial, found.partial)
        return Found([pages.get(n, n) for n in found.pages], partial) if whole else None

    def count(self, views: Iterable[View]) -> None:
        """A sequence was admitted after these look-ups."""
        for place in (place for view in views for place in view.missed.values()):
            for tier in self.tiers[: place + 1]:
                tier.queries += 1
            if place < len(self.tiers):
                self.tiers[place].hits += 1

    def reset(self) -> None:
        """No tier has anything."""
        for tier in self.tiers:
            tier.clear()

    def close(self, pools: Mapping[str, PagePool]) -> None:
        """What would be lost with the process goes to the tier that outlives it, as far as that has room: what was used last first."""
        *above, last = self.tiers
        if last.lasting:
            room, kept = last.stats().capacity, list[Kept | Saved]()
            for page in self._newest(pools, above):
                room -= page.data.nbytes if isinstance(page, Saved) else self.rows.nbytes(page[0])
                if room < 0:
                    break
                kept.append(page)
            for page in reversed(kept):  # so that it is also what goes last there
                self._outlive(last, page)
        for tier in self.tiers:
            tier.close()

    def stats(self) -> dict[str, TierStats]:
        """Of each tier."""
        return {tier.name: tier.stats() for tier in self.tiers}

    def _write(self, tier: Tier, page: Saved) -> list[Saved]:
        gone = tier.write(page)
        if self.events is not None and not tier.lasting:
            if page not in gone:
                self.events.saved(page.group, page.keys)
            for other in gone:
                self.events.dropped(other.group, other.keys)
        return gone

    def _fill(self, address: Address, page: int, pool: PagePool) -> bool:
        saved = next((s for tier in self.tiers if tier.has(address) and (s := tier.read(address)) is not None), None)
        if saved is None:
            return False
        self.rows.write(address.group, page, saved.data)
        for key in saved.keys:
            pool.keep(page, key)
        return True

    def _newest(self, pools: Mapping[str, PagePool], above: Sequence[Tier]) -> Iterator[Kept | Saved]:
        for group, pool in pools.items():
            yield from ((group, page, tuple(keys)) for page, keys in pool.kept())
        for tier in above:
            yield from reversed(tier.held())

    def _outlive(self, last: Tier, page: Kept | Saved) -> None:
        group, number, keys = (page.group, NULL, page.keys) if isinstance(page, Saved) else page
        if not last.holds(Address(group, keys[-1])):
            last.write(page if isinstance(page, Saved) else Saved(group, keys, self.rows.read(group, number)))
