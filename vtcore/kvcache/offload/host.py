"""Pages in the host's memory: copies outside the pool."""

from __future__ import annotations

from vtcore.kvcache.offload.eviction import POLICIES
from vtcore.kvcache.offload.tier import Address, Saved, TierStats


class HostTier:
    """At most `capacity` bytes of pages. One that was fetched stays, so that it costs nothing when its pool needs the room again."""

    name, lasting = "host", False

    def __init__(self, capacity: int, policy: str = "lru") -> None:
        self.capacity, self.policy = capacity, policy
        self.queries = self.hits = 0
        self._stored = self._stored_bytes = self._loaded_bytes = self._evictions = 0
        self.clear()

    def clear(self) -> None:
        self.nbytes = 0
        self._order = POLICIES[self.policy](self.capacity)
        self._pages = dict[Address, Saved]()
        self._names = dict[Address, Address]()  # by any key, the page's name

    def has(self, address: Address) -> bool:
        return address in self._names

    def read(self, address: Address) -> Saved | None:
        name = self._names.get(address)
        if name is None:
            return None
        self._order.touch(name)
        page = self._pages[name]
        self._loaded_bytes += page.data.nbytes
        return page

    def holds(self, address: Address) -> bool:
        """Whether a page of this name is there; then it counts as used."""
        if address in self._pages:
            self._order.touch(address)
        return address in self._pages

    def write(self, page: Saved) -> list[Saved]:
        if self.holds(page.address):
            return []
        if page.data.nbytes > self.capacity:
            return [page]
        gone = list[Saved]()
        self._order.arrive(page.address, page.data.nbytes)
        while self.nbytes + page.data.nbytes > self.capacity:
            gone.append(self._drop(self._order.victim(page.address)))
        self._hold(page)
        return gone

    def held(self) -> list[Saved]:
        return [self._pages[name] for name in self._order.order()]

    def close(self) -> None:
        self.clear()

    def stats(self) -> TierStats:
        counts = (self.queries, self.hits, self._stored, self._stored_bytes, self._loaded_bytes, self._evictions)
        return TierStats(self.capacity, self.nbytes, len(self._pages), *counts)

    def _hold(self, page: Saved) -> None:
        self._order.add(page.address, page.data.nbytes)
        self._pages[page.address] = page
        for key in page.keys:
            self._names.setdefault(Address(page.group, key), page.address)
        self.nbytes += page.data.nbytes
        self._stored += 1
        self._stored_bytes += page.data.nbytes

    def _drop(self, name: Address) -> Saved:
        page = self._pages.pop(name)
        for address in (Address(page.group, key) for key in page.keys):
            if self._names.get(address) == name:
                del self._names[address]
        self.nbytes -= page.data.nbytes
        self._evictions += 1
        return page
