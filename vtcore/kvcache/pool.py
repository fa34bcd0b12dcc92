"""Pages by number: which are free, and who else holds one that is not."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from vtcore.errors import OutOfMemoryError

NULL = 0  # the page of zeros: never handed out, never written, named where a position needs no page


class PagePool:
    """The pages 1 ... `pages` - 1 of one cache group, with a count of holders each."""

    def __init__(self, pages: int) -> None:
        if pages < 2:
            raise ValueError(f"a pool has {pages} pages; it needs at least 2, since page 0 is the page of zeros")
        self.pages = pages
        self._free = deque(range(1, pages))
        self._holders = [0] * pages

    @property
    def capacity(self) -> int:
        """Pages that can be handed out."""
        return self.pages - 1

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """The part that is held, from 0 to 1."""
        return 1 - self.num_free / self.capacity

    def take(self, count: int) -> list[int]:
        """Fresh pages, each with one holder: all of them or OutOfMemoryError."""
        if count > self.num_free:
            raise OutOfMemoryError(f"{count} pages are needed; {self.num_free} of {self.capacity} are free")
        taken = [self._free.popleft() for _ in range(count)]
        for page in taken:
            self._holders[page] = 1
        return taken

    def share(self, pages: Iterable[int]) -> None:
        """One more holder for each page."""
        for page in pages:
            self._holders[self._held(page)] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One holder less for each page; the last one frees it. The page of zeros is nobody's and is passed over."""
        for page in pages:
            if page != NULL:
                self._holders[self._held(page)] -= 1
                if not self._holders[page]:
                    self._free.appendleft(page)  # the next to be taken: its memory is there already, and warm

    def holders(self, page: int) -> int:
        """How many hold a page; 0: it is free."""
        return self._holders[page]

    def _held(self, page: int) -> int:
        assert self._holders[page] > 0, f"page {page} is free already"
        return page
