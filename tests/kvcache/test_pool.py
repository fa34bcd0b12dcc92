"""Pages by number, with counts of holders, and with what the free ones keep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore.errors import OutOfMemoryError
from vtcore.kvcache.pool import NULL, PagePool


def test_the_page_of_zeros_is_never_handed_out():
    pool = PagePool(5)
    assert pool.capacity == 4
    assert NULL not in pool.take(4)
    pool.release([NULL])
    pool.share([NULL])
    assert pool.num_free == 0


def test_too_few_says_how_many_and_takes_none():
    pool = PagePool(5)
    pool.take(1)
    with pytest.raises(OutOfMemoryError, match="4 pages are needed; 3 of 4 are free"):
        pool.take(4)
    assert pool.num_free == 3
    assert pool.usage == 0.25


@pytest.mark.feature("Block-paged KV with refcount and LRU evict")
def test_a_shared_page_is_free_after_its_last_holder():
    pool = PagePool(3)
    pages = pool.take(1)
    pool.share(pages)
    pool.release(pages)
    assert pool.holders(pages[0]) == 1
    assert pool.num_free == 1
    pool.release(pages)
    assert pool.holders(pages[0]) == 0
    assert pool.num_free == 2


def test_giving_back_twice_is_our_own_fault():
    pool = PagePool(3)
    pages = pool.take(1)
    pool.release(pages)
    with pytest.raises(AssertionError, match="free already"):
        pool.release(pages)
    with pytest.raises(AssertionError, match="keeps nothing"):
        pool.share(pages)


def test_a_pool_has_at_least_two_pages():
    with pytest.raises(ValueError, match="at least 2"):
        PagePool(1)


@pytest.mark.feature("Block-paged KV with refcount and LRU evict")
def test_what_is_unused_for_longest_is_forgotten_first_and_of_one_sequence_its_tail():
    pool = PagePool(8)
    a, b, c, d, e = pool.take(5)
    for page in (a, b, c):
        pool.keep(page, bytes([page]))
    pool.release(reversed([a, b, c]))  # as a sequence ends: c, b, a
    pool.release([d, e])  # they keep nothing: they go first, the last one given back before the others
    assert pool.num_cached == 3
    assert pool.take(4) == [e, d, 6, 7]
    assert pool.evictions == 0
    pool.share([c])  # a hit: it leaves the queue
    pool.release([c])  # and is the youngest now
    assert pool.take(3) == [b, a, c]
    assert pool.evictions == 3
    assert pool.find(bytes([a])) is None


def test_the_first_page_with_a_key_is_found():
    pool = PagePool(4)
    a, b = pool.take(2)
    pool.keep(a, b"key")
    pool.keep(b, b"key")
    pool.release([a, b])
    assert pool.find(b"key") == a
    assert pool.num_cached == 1
    pool.forget(a)
    assert pool.find(b"key") is None


MOVES = st.lists(st.tuples(st.sampled_from(["take", "share", "release", "keep", "hit"]), st.integers(0, 6)), max_size=80)


@pytest.mark.feature("Block-paged KV with refcount and LRU evict")
@given(MOVES)
def test_no_page_is_lost_or_held_twice(moves):
    pool, held = PagePool(8), []
    for move, n in moves:
        if move == "take" and n <= pool.num_free:
            held += pool.take(n)
        elif move == "share" and held:
            pool.share([held[n % len(held)]])
            held.append(held[n % len(held)])
        elif move == "release" and held:
            pool.release([held.pop(n % len(held))])
        elif move == "keep" and held:
            pool.keep(held[n % len(held)], bytes([n]))
        elif move == "hit" and (page := pool.find(bytes([n]))) is not None:
            pool.share([page])
            held.append(page)
        assert all(pool.holders(p) == held.count(p) for p in range(1, 8))
        assert pool.num_free == 7 - len(set(held))
