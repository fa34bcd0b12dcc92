"""Copies in the host's memory, and which of them goes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kvcache.offload.pages import at, saved
from vtcore.kvcache.offload.eviction import POLICIES
from vtcore.kvcache.offload.host import HostTier


def names(tier: HostTier) -> set[bytes]:
    return {page.keys[-1] for page in tier.held()}


def test_the_one_unused_for_longest_goes():
    tier = HostTier(300)
    for key in (b"a", b"b", b"c"):
        assert tier.write(saved(key)) == []
    assert tier.read(at(b"a")).data.tobytes() == saved(b"a").data.tobytes()
    [gone] = tier.write(saved(b"d"))
    assert gone.keys == (b"b",)
    assert names(tier) == {b"a", b"c", b"d"}
    assert tier.read(at(b"b")) is None


def test_a_page_is_found_by_each_of_its_keys_in_its_own_group():
    tier = HostTier(300)
    tier.write(saved(b"x", b"y"))
    assert tier.has(at(b"x"))
    assert tier.read(at(b"x")).keys == (b"x", b"y")
    assert not tier.has(at(b"x", "another"))
    tier.write(saved(b"z", nbytes=300))
    assert not tier.has(at(b"x"))


def test_what_is_larger_than_all_of_it_goes_on_and_nothing_goes_for_it():
    tier = HostTier(300)
    tier.write(saved(b"a"))
    large = saved(b"l", nbytes=301)
    assert tier.write(large) == [large]
    assert names(tier) == {b"a"}


def test_what_comes_again_survives_many_that_come_once_under_arc_alone():
    kept = {}
    for policy in POLICIES:
        tier = HostTier(400, policy)
        for key in (b"a", b"b"):
            tier.write(saved(key))
            tier.read(at(key))
        for i in range(20):
            tier.write(saved(bytes([i])))
        kept[policy] = names(tier) & {b"a", b"b"}
    assert kept == {"lru": set(), "arc": {b"a", b"b"}}


def test_arc_gives_room_to_the_kind_that_it_gave_up_too_early():
    tier = HostTier(400, "arc")
    for key in (b"a", b"b", b"c", b"d"):
        tier.write(saved(key))
    tier.read(at(b"d"))
    tier.write(saved(b"e"))  # a goes, and is remembered
    assert tier._order.target == 0
    tier.write(saved(b"a"))
    assert tier._order.target == 100
    assert b"a" in {address.key for address in tier._order.again.pages}


@pytest.mark.parametrize("policy", POLICIES)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=80))
def test_bytes_are_counted_and_never_too_many(policy, steps):
    tier, there = HostTier(500, policy), dict[bytes, bytes]()
    for writes, i in steps:
        key = bytes([i])
        if writes:
            page = saved(key, nbytes=60 + 17 * i)
            for gone in tier.write(page):
                del there[gone.keys[-1]]
            there[key] = page.data.tobytes()
        else:
            found = tier.read(at(key))
            assert (None if found is None else found.data.tobytes()) == there.get(key)
        assert {p.keys[-1]: p.data.tobytes() for p in tier.held()} == there
        assert tier.nbytes == sum(map(len, there.values())) <= 500
    tier.clear()
    assert tier.stats().pages == tier.stats().nbytes == 0
