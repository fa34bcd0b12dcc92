"""Which page goes first: the one unused for longest, or ARC (Megiddo and Modha, FAST 2003), which also sees what comes again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from vtcore.kvcache.offload.tier import Address


class Eviction(Protocol):
    """The order of the pages in a room of so many bytes. Before a page is added it arrives, and others go for it."""

    def arrive(self, address: Address, nbytes: int) -> None:
        """A page that is not there will be added."""
        ...

    def victim(self, coming: Address) -> Address:
        """Take out the page that goes for it."""
        ...

    def add(self, address: Address, nbytes: int) -> None:
        """It is there."""
        ...

    def touch(self, address: Address) -> None:
        """A page was used."""
        ...

    def order(self) -> list[Address]:
        """All pages, those that would go first, first."""
        ...


class Queue:
    """Pages from the one unused for longest to the one used last, and their bytes together."""

    def __init__(self) -> None:
        self.pages = OrderedDict[Address, int]()
        self.nbytes = 0

    def push(self, address: Address, nbytes: int) -> None:
        """Add one, as the last used."""
        self.pages[address] = nbytes
        self.nbytes += nbytes

    def remove(self, address: Address) -> int | None:
        """Take one out: its bytes, or None where it is not there."""
        nbytes = self.pages.pop(address, None)
        self.nbytes -= nbytes or 0
        return nbytes

    def pop(self) -> tuple[Address, int]:
        """Take out the first."""
        address = next(iter(self.pages))
        return address, self.remove(address) or 0


class Lru:
    """The one unused for longest goes."""

    def __init__(self, capacity: int) -> None:
        self._queue = Queue()

    def arrive(self, address: Address, nbytes: int) -> None:
        pass

    def victim(self, coming: Address) -> Address:
        return self._queue.pop()[0]

    def add(self, address: Address, nbytes: int) -> None:
        self._queue.push(address, nbytes)

    def touch(self, address: Address) -> None:
        self._queue.pages.move_to_end(address)

    def order(self) -> list[Address]:
        return list(self._queue.pages)


class Arc:
    """Pages used once and pages used again, each with the names of those that went. A name that comes back moves the border between the
    two: `target` bytes are for those used once."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.target = capacity, 0
        self.once, self.again, self.once_gone, self.again_gone = Queue(), Queue(), Queue(), Queue()

    def arrive(self, address: Address, nbytes: int) -> None:
        once, again = self.once_gone, self.again_gone
        if address in once.pages:
            self.target = min(self.capacity, self.target + max(nbytes, nbytes * again.nbytes // once.nbytes))
        elif address in again.pages:
            self.target = max(0, self.target - max(nbytes, nbytes * once.nbytes // again.nbytes))

    def victim(self, coming: Address) -> Address:
        over = self.once.nbytes > self.target or (coming in self.again_gone.pages and self.once.nbytes == self.target)
        from_once = bool(self.once.pages) and (over or not self.again.pages)
        queue, gone = (self.once, self.once_gone) if from_once else (self.again, self.again_gone)
        address, nbytes = queue.pop()
        gone.push(address, nbytes)
        return address

    def add(self, address: Address, nbytes: int) -> None:
        came_back = self.once_gone.remove(address) or self.again_gone.remove(address)
        (self.again if came_back else self.once).push(address, nbytes)
        for gone, most in ((self.once_gone, self.capacity - self.once.nbytes), (self.again_gone, self.capacity)):
            while gone.nbytes > most:
                gone.pop()

    def touch(self, address: Address) -> None:
        self.again.push(address, self.once.remove(address) or self.again.remove(address) or 0)

    def order(self) -> list[Address]:
        return [*self.once.pages, *self.again.pages]


POLICIES: dict[str, Callable[[int], Eviction]] = {"lru": Lru, "arc": Arc}
