"""Groups that share bytes: what one doesn't use another has, and no page is lost by that."""

import ctypes
import sys

import numpy as np
import pytest

from vtcore import system_pages
from vtcore.errors import OutOfMemoryError
from vtcore.kvcache.budget import Budget
from vtcore.kvcache.cache import Cache, Paged
from vtcore.kvcache.manager import KVCacheManager
from vtcore.memory import HostMemory

SHAPES = {"k": (1, 4)}
FULL, WINDOW = Paged(SHAPES), Paged(SHAPES, window=6)
LARGE, SMALL = "large", "small"


def pools(nbytes=12, large=9, small=20):
    given = []
    budget = Budget(nbytes, {LARGE: 3, SMALL: 1}, lambda group, page: given.append((group, page)))
    return budget, budget.pool(LARGE, large), budget.pool(SMALL, small), given


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
def test_one_group_has_what_another_does_not_use():
    budget, large, small, given = pools()
    assert (large.num_free, small.num_free) == (4, 12)
    small.take(10)
    assert (large.num_free, small.num_free, budget.spare) == (0, 2, 2)
    with pytest.raises(OutOfMemoryError, match="1 pages are needed; 0 of 4 are free"):
        large.take(1)
    assert not given


def test_memory_is_given_back_before_another_group_takes_it():
    budget, large, small, given = pools()
    pages = small.take(12)
    small.release(pages)
    large.take(2)
    assert len(given) == 6
    assert {group for group, _ in given} == {SMALL}
    assert (budget.paid, budget.spare) == (12, 6)
    assert sorted(small.take(6)) == sorted(set(pages) - {page for _, page in given})


@pytest.mark.feature("Block-paged KV with refcount and LRU evict")
def test_a_page_that_keeps_nothing_goes_first_then_the_one_unused_for_longest_whose_ever_it_is():
    _, large, small, given = pools()
    [kept] = large.take(1)
    large.keep(kept, b"long ago")
    rest = small.take(9)
    small.keep(rest[0], b"just now")
    large.release([kept])
    small.release(rest[:2])
    small.take(1)
    assert (small.find(b"just now"), large.find(b"long ago"), given) == (rest[0], kept, [])
    small.take(1)
    assert (small.find(b"just now"), large.find(b"long ago"), given) == (rest[0], None, [(LARGE, kept)])
    assert (large.evictions, small.evictions) == (1, 0)


def test_needs_are_added_up_over_the_groups():
    budget, large, small, _ = pools()
    assert budget.fits({LARGE: 2, SMALL: 6}, {})
    assert not budget.fits({LARGE: 2, SMALL: 7}, {})
    assert not budget.fits({LARGE: 0, SMALL: 20}, {})  # so many numbers it has not
    small.take(3)
    assert not budget.fits({LARGE: 4}, {SMALL: 2})
    assert budget.fits({LARGE: 4}, {SMALL: 3})
    assert (large.num_held, small.num_held) == (0, 3)


def manager(nbytes):
    groups = {s.group: s for s in (FULL, WINDOW)}
    return KVCacheManager(groups, dict.fromkeys(groups, 99), 4, budget=Budget(nbytes, {FULL.group: 2, WINDOW.group: 3}))


def test_a_sequence_gets_its_pages_in_all_groups_or_none():
    kv = manager(14)
    assert kv.allocate_slots("a", 0, 8)
    assert kv.usage == 10 / 14
    assert not kv.allocate_slots("b", 0, 4)
    kv.free("a")
    assert kv.usage == 0
    assert kv.lacks({FULL.group: 4, WINDOW.group: 2}) == 0
    assert kv.lacks({FULL.group: 4, WINDOW.group: 3}) == 3
    assert [(p.total, p.held, p.free) for p in kv.stats().pools.values()] == [(7, 0, 7), (4, 0, 4)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a system doesn't say, or takes pages only when it likes")
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used before"])
def test_what_is_given_back_costs_the_process_nothing(monkeypatch, used):
    """Also where the allocator hands out memory that the process used and freed: such pages are zeros, but already cost what they cost."""
    if used:
        fresh = HostMemory.fresh
        monkeypatch.setattr(HostMemory, "fresh", staticmethod(lambda size: zeroed(fresh(size))))
    entries = 1 << 12
    cache = Cache({(0, "kv"): Paged({"k": (1, 256)}), (1, "kv"): Paged({"k": (1, 256)}, window=9)}, 33, entries)  # 4 MiB a page
    cache.sparse()
    rows = cache.arrays[0, "kv"]["k"].numpy()
    written = rows[1:17]
    assert resident(written) == 0
    written[:] = 1
    assert resident(written) == written.nbytes
    for page in range(1, 17):
        cache.give_back(FULL.group, page)
    assert resident(written) == 0
    rows[5] = 2
    assert resident(written) == rows[5].nbytes
    assert np.all(rows[5] == 2)


def zeroed(buffer):
    buffer[:] = 0  # written: every page of it is the process's own
    return buffer


def resident(array) -> int:
    """Bytes of an array that the system keeps pages for: of this one alone, whatever else the process takes or lets go."""
    seen = np.zeros(array.nbytes // system_pages.SIZE, np.uint8)
    begin, nbytes, told = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), ctypes.c_void_p(seen.ctypes.data)
    assert ctypes.CDLL(None).mincore(begin, nbytes, told) == 0
    return int((seen & 1).sum()) * system_pages.SIZE
