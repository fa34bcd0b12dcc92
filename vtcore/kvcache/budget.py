"""One number of bytes for the pools of several groups: none of it stands idle in one while another has too few pages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import count

from vtcore.kvcache.pool import PagePool

GiveBack = Callable[[str, int], None]  # of a group, the memory of a page


class Budget:
    """`sizes`: bytes of a page, by group. A page costs them from when it is first taken until its memory is given back to the system,
    by `give_back`, for a page of another group. Nothing is divided, padded or cut to a common size, so nothing is lost between pages."""

    def __init__(self, nbytes: int, sizes: Mapping[str, int], give_back: GiveBack = lambda group, page: None) -> None:
        self.nbytes, self.sizes, self.give_back = nbytes, sizes, give_back
        self.paid = 0  # bytes of all pages whose memory was not given back
        self.clock = count(1)
        self.pools: dict[str, SharedPool] = {}

    def pool(self, group: str, pages: int) -> SharedPool:
        """That of a group, with so many numbers for pages, the page of zeros among them: as many as it may ever hold at once."""
        made = self.pools[group] = SharedPool(group, pages, self)
        return made

    @property
    def spare(self) -> int:
        """Bytes that nobody holds."""
        return self.nbytes - sum(pool.num_held * pool.size for pool in self.pools.values())

    def fits(self, needs: Mapping[str, int], gain: Mapping[str, int]) -> bool:
        """Whether every group can hand out so many pages, once so many that are held were given back."""
        if any(n > self.pools[group].num_numbers + gain.get(group, 0) for group, n in needs.items()):
            return False
        return self.cost(needs) - self.cost(gain) <= self.spare

    def cost(self, pages: Mapping[str, int]) -> int:
        """Bytes of so many pages of each group."""
        return sum(self.sizes[group] * n for group, n in pages.items())

    def affords(self, size: int) -> bool:
        """Whether a page of so many bytes may be begun while all others keep what they have."""
        return self.paid + size <= self.nbytes

    def oldest(self) -> SharedPool:
        """Whose turn it is to give up a free page: one that keeps nothing first, then the one unused for longest."""
        return min((pool for pool in self.pools.values() if pool.age is not None), key=lambda pool: pool.age or 0)


class SharedPool(PagePool):
    """A pool whose pages cost nothing before they are taken. `fresh` ones are those that never were, or whose memory was given back."""

    def __init__(self, group: str, pages: int, budget: Budget) -> None:
        super().__init__(pages)
        self.group, self.size, self.budget, self.clock = group, budget.sizes[group], budget, budget.clock
        self._fresh = OrderedDict[int, None].fromkeys(range(1, pages))
        self._free.clear()

    @property
    def capacity(self) -> int:
        """Pages that can be handed out where no other group has any."""
        return min(self.pages - 1, self.budget.nbytes // self.size)

    @property
    def num_held(self) -> int:
        """Pages that somebody holds."""
        return self.pages - 1 - self.num_numbers

    @property
    def num_free(self) -> int:
        """Pages that can be handed out now, where no other group takes any."""
        return min(self.num_numbers, self.budget.spare // self.size)

    @property
    def num_numbers(self) -> int:
        """Pages that nobody holds, whatever the bytes."""
        return len(self._free) + len(self._fresh)

    @property
    def age(self) -> int | None:
        """When the next page that it would give up was freed: 0 where that keeps nothing; None where it has none."""
        page = next(iter(self._free), None)
        return None if page is None else self._free[page] if page in self._keys else 0

    def give_up(self) -> None:
        """The next page keeps nothing any more, and costs nothing."""
        page = super()._next()
        self.budget.give_back(self.group, page)
        self.budget.paid -= self.size
        self._fresh[page] = None

    def _next(self) -> int:
        """One of its own that keeps nothing; else a fresh one while there are bytes; else whatever was unused for longest makes room."""
        while self.age != 0 and self._fresh:
            if self.budget.affords(self.size):
                return self._begin()
            if (giver := self.budget.oldest()) is self:
                break
            giver.give_up()
        return super()._next()

    def _begin(self) -> int:
        page, _ = self._fresh.popitem(last=False)
        self.budget.paid += self.size
        return page
