"""Pages by number: who holds each, which are free, and what the free ones still keep."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Protocol

from vtcore.errors import OutOfMemoryError

NULL = 0  # the page of zeros: never handed out, never written, named where a position needs no page


class Watch(Protocol):
    """Whoever follows what keys lead to."""

    def kept(self, key: bytes) -> None:
        """A key leads to a page from now on."""
        ...

    def taken(self, page: int, keys: Sequence[bytes]) -> None:
        """A page is going to be written over. It still holds what its keys stand for."""
        ...

    def forgotten(self, keys: Sequence[bytes]) -> None:
        """Keys lead nowhere any more."""
        ...


class PagePool:
    """The pages 1 ... `pages` - 1 of one cache group, with a count of holders each, and the keys of what stands in them.

    A page that nobody holds is free, and lies in a queue from whose head pages are taken. One with keys joins at the back, and keeps its
    content until it is taken: the one unused for longest goes first. One without keys joins at the head.

    Between `launch` and `land` a step computes, which may write any page: what is given back meanwhile joins the queue at `land`, so that
    nobody takes it before."""

    def __init__(self, pages: int) -> None:
        if pages < 2:
            raise ValueError(f"a pool has {pages} pages; it needs at least 2, since page 0 is the page of zeros")
        self.pages = pages
        self.watch: Watch | None = None
        self.evictions = 0  # pages that were taken for something else while they had keys
        self.clock = count(1)
        self._free = OrderedDict[int, int].fromkeys(range(1, pages), 0)  # page -> when it was freed
        self._parked: dict[int, None] | None = None  # given back while a step computes; None: none does
        self._holders = [0] * pages
        self._page_of: dict[bytes, int] = {}
        self._keys: dict[int, list[bytes]] = {}

    @property
    def capacity(self) -> int:
        """Pages that can be handed out."""
        return self.pages - 1

    @property
    def num_free(self) -> int:
        """Pages that nobody holds, those that keep something among them."""
        return len(self._free)

    @property
    def num_held(self) -> int:
        """Pages that can't be taken, whatever the bytes: that somebody holds, or that wait to be free."""
        return self.pages - 1 - len(self._free)

    @property
    def num_parked(self) -> int:
        """Pages that nobody holds, and that can be taken once the step that computes has landed."""
        return len(self._parked or ())

    @property
    def num_cached(self) -> int:
        """Free pages whose content can still be found."""
        return sum(page in self._keys for page in self._free)

    @property
    def usage(self) -> float:
        """The part that can't be taken, from 0 to 1."""
        return 1 - self.num_free / self.capacity

    def take(self, count: int) -> list[int]:
        """Fresh pages, each with one holder: all of them or OutOfMemoryError. What they kept is forgotten."""
        if count > self.num_free:
            raise OutOfMemoryError(f"{count} pages are needed; {self.num_free} of {self.capacity} are free")
        taken = [self._next() for _ in range(count)]
        for page in taken:
            self._holders[page] = 1
        return taken

    def share(self, pages: Iterable[int]) -> None:
        """One more holder for each page, which somebody holds or a key has found. The page of zeros is passed over."""
        for page in pages:
            if page == NULL:
                continue
            assert self._holders[page] or page in self._keys, f"page {page} is free, and keeps nothing"
            self._free.pop(page, None)
            if self._parked:
                self._parked.pop(page, None)
            self._holders[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One holder less for each page; the last one frees it. The page of zeros is nobody's and is passed over."""
        for page in pages:
            if page != NULL:
                self._holders[self._held(page)] -= 1
                if not self._holders[page]:
                    self._leave(page)

    def launch(self) -> None:
        """A step begins to compute."""
        assert self._parked is None, "a step computes already"
        self._parked = {}

    def land(self) -> None:
        """It is done."""
        parked, self._parked = self._parked or {}, None
        for page in parked:
            self._leave(page)

    def is_free(self, page: int) -> bool:
        """Whether a page can be taken."""
        return page in self._free

    def holders(self, page: int) -> int:
        """How many hold a page; 0: it is free."""
        return self._holders[page]

    def keep(self, page: int, key: bytes) -> None:
        """What a held page contains can be found by a key. The first page with a key is the one that is found."""
        if self._page_of.setdefault(key, self._held(page)) == page:
            keys = self._keys.setdefault(page, [])
            if key not in keys:
                keys.append(key)
                if self.watch is not None:
                    self.watch.kept(key)

    def find(self, key: bytes) -> int | None:
        """The page that a key leads to."""
        return self._page_of.get(key)

    def forget(self, page: int) -> None:
        """No key leads to a page any more."""
        keys = self._keys.pop(page, [])
        for key in keys:
            del self._page_of[key]
        if keys and self.watch is not None:
            self.watch.forgotten(keys)

    def kept(self) -> Iterator[tuple[int, Sequence[bytes]]]:
        """Pages with keys, and these: first those that are held, then the free ones, from the one unused for shortest on."""
        yield from ((page, keys) for page, keys in self._keys.items() if self._holders[page])
        yield from ((page, self._keys[page]) for page in reversed(self._free) if page in self._keys)

    def forget_all(self) -> None:
        """No key leads to any page."""
        self._keys.clear()
        self._page_of.clear()

    def _next(self) -> int:
        """The head of the queue, which keeps nothing any more."""
        page, _ = self._free.popitem(last=False)
        if page in self._keys:
            self.evictions += 1
            if self.watch is not None:
                self.watch.taken(page, self._keys[page])
            self.forget(page)
        return page

    def _leave(self, page: int) -> None:
        if self._parked is not None:
            self._parked[page] = None
            return
        self._free[page] = next(self.clock)
        if page not in self._keys:
            self._free.move_to_end(page, last=False)  # the next to be taken: its memory is there already, and warm

    def _held(self, page: int) -> int:
        assert self._holders[page] > 0, f"page {page} is free already"
        return page
