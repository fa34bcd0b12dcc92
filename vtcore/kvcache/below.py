"""What stands behind the pools of a cache, all of it optional: tiers that keep what a pool has no room for, and readers of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from vtcore.kvcache.chain import Chain
from vtcore.kvcache.events.log import EventLog
from vtcore.kvcache.events.publisher import Publisher
from vtcore.kvcache.offload.offload import Offload
from vtcore.kvcache.offload.tier import TierStats
from vtcore.kvcache.offload.view import View
from vtcore.kvcache.pool import PagePool
from vtcore.kvcache.tables import Finder, Found

Pools = Mapping[str, PagePool]


class Below:
    """Of one cache. `close` it: what outlives the process is written then."""

    def __init__(self, offload: Offload | None = None, events: EventLog | None = None, publisher: Publisher | None = None) -> None:
        self.offload, self.events, self.publisher = offload, events, publisher
        self._pools: Pools = {}
        self._closed = False

    def attach(self, pools: Pools) -> None:
        """Follow what happens in these."""
        self._pools = pools
        if self.offload is not None or self.events is not None:
            for group, pool in pools.items():
                pool.watch = GroupWatch(group, self.offload, self.events)

    def finders(self) -> Mapping[str, Finder]:
        """What one look-up asks, by group."""
        offload = self.offload
        return self._pools if offload is None else {group: offload.view(group, pool) for group, pool in self._pools.items()}

    def bring(self, found: Mapping[str, Found], finders: Mapping[str, Finder]) -> Mapping[str, Found] | None:
        """What was found, in the pools. None where a tier lost some of it meanwhile."""
        if self.offload is None:
            return found
        brought = dict[str, Found]()
        for group, finder in finders.items():
            here = self.offload.bring(group, found[group], finder) if isinstance(finder, View) else found[group]
            if here is None:
                return None
            brought[group] = here
        return brought

    def admitted(self, chain: Chain | None, finders: Mapping[str, Finder], length: int) -> None:
        """A sequence began with so many tokens from the cache."""
        if self.offload is not None:
            self.offload.count([finder for finder in finders.values() if isinstance(finder, View)])
        if chain is not None:
            self.settled(chain, 0, length)

    def settled(self, chain: Chain, begin: int, end: int) -> None:
        """What was kept since the last time is of these tokens of a sequence."""
        if self.events is not None:
            self.events.settled(chain, begin, end)

    def reset(self) -> None:
        """Nothing is found any more."""
        if self.offload is not None:
            self.offload.reset()
        if self.events is not None:
            self.events.cleared()

    def tell(self) -> None:
        """Publish what happened since the last time."""
        if self.events is not None and self.publisher is not None and (events := self.events.take()):
            self.publisher.publish(events)

    def stats(self) -> dict[str, TierStats]:
        """By tier."""
        return {} if self.offload is None else self.offload.stats()

    def close(self) -> None:
        """A second time changes nothing."""
        if self._closed:
            return
        self._closed = True
        if self.offload is not None:
            self.offload.close(self._pools)
        if self.publisher is not None:
            self.tell()
            self.publisher.close()


class GroupWatch:
    """Follows one group's pool."""

    def __init__(self, group: str, offload: Offload | None, events: EventLog | None) -> None:
        self._save = None if offload is None else partial(offload.save, group)
        self._kept = None if events is None else partial(events.kept, group)
        self._forgotten = None if events is None else partial(events.forgotten, group)

    def kept(self, key: bytes) -> None:
        """A key leads to a page."""
        if self._kept is not None:
            self._kept(key)

    def taken(self, page: int, keys: Sequence[bytes]) -> None:
        """A page is going to be written over."""
        if self._save is not None:
            self._save(page, keys)

    def forgotten(self, keys: Sequence[bytes]) -> None:
        """Keys lead nowhere any more."""
        if self._forgotten is not None:
            self._forgotten(keys)
