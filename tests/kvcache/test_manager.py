"""Tables of pages: grown in all groups or none, cut where a window has passed, given back in full."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import Paged, State
from vtcore.kvcache.manager import KVCacheManager

SHAPES = {"k": (1, 4)}
FULL, WINDOW, RARE, STATE = Paged(SHAPES), Paged(SHAPES, window=6), Paged(SHAPES, every=4), State(SHAPES)


def manager(*specs, pages=12, size=4):
    groups = {s.group: s for s in specs}
    return KVCacheManager(groups, dict.fromkeys(groups, pages), size)


def test_pages_follow_the_tokens():
    kv = manager(FULL)
    assert kv.allocate_slots("a", 0, 4)
    assert len(kv.read("a", FULL.group, 0)) == 1
    assert kv.allocate_slots("a", 4, 1)
    first, second = kv.read("a", FULL.group, 4)
    assert kv.slots("a", FULL.group, 2, 3).tolist() == [first * 4 + 2, first * 4 + 3, second * 4]


def test_asking_again_takes_nothing_more():
    kv = manager(FULL)
    assert kv.allocate_slots("a", 0, 9)
    before = kv.pools[FULL.group].num_free
    assert kv.allocate_slots("a", 0, 9)
    assert kv.pools[FULL.group].num_free == before


def test_all_groups_or_none():
    groups = {s.group: s for s in (FULL, WINDOW)}
    kv = KVCacheManager(groups, {FULL.group: 12, WINDOW.group: 3}, 4)
    assert not kv.allocate_slots("a", 0, 12)
    assert (kv.pools[FULL.group].num_free, kv.pools[WINDOW.group].num_free) == (11, 2)


@pytest.mark.feature("Sliding-window and chunked-local attention")
def test_pages_behind_the_window_go_back():
    kv = manager(WINDOW)
    assert kv.allocate_slots("a", 0, 12)
    assert kv.allocate_slots("a", 12, 1)  # token 12 sees 7 ... 12: the first page, 0 ... 3, is behind
    assert kv.read("a", WINDOW.group, 12)[0] == 0
    assert kv.pools[WINDOW.group].num_free == 11 - 3


def test_an_entry_for_every_fourth_token():
    kv = manager(RARE)
    assert kv.allocate_slots("a", 0, 17)
    assert len(kv.read("a", RARE.group, 0)) == 2
    page = kv.read("a", RARE.group, 0)[0]
    assert kv.slots("a", RARE.group, 0, 8).tolist() == [-1, -1, -1, page * 4, -1, -1, -1, page * 4 + 1]


def test_a_state_begins_with_the_zeros():
    kv = manager(STATE)
    assert kv.allocate_slots("a", 0, 3)
    slot = kv.slots("a", STATE.group, 0, 3)[-1]
    assert kv.read("a", STATE.group, 0) == [0]
    assert kv.slots("a", STATE.group, 0, 3).tolist() == [-1, -1, slot]
    assert kv.read("a", STATE.group, 3) == [slot]


ENCODER = Paged(SHAPES, of="encoder", longest=9)


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
def test_pages_of_an_encoder_follow_its_input_and_are_written_once():
    kv = manager(ENCODER, FULL)
    assert kv.admit("a", None, 0, 3, 8, encoded=6) == 0
    assert kv.allocate_slots("a", 0, 2)
    first, second = kv.read("a", ENCODER.group, 0)
    assert kv.slots("a", ENCODER.group, 0, 2).tolist() == [*range(first * 4, first * 4 + 4), second * 4, second * 4 + 1]
    assert kv.allocate_slots("a", 2, 30)
    assert kv.slots("a", ENCODER.group, 2, 30).tolist() == []
    assert kv.read("a", ENCODER.group, 2) == [first, second]
    kv.free("a")
    assert kv.usage == 0


def test_pages_of_anything_else_are_refused():
    with pytest.raises(ArgumentError, match="'dream'; there are pages of text, and of an encoder"):
        manager(Paged(SHAPES, of="dream"))


def test_nothing_to_free_is_nothing():
    kv = manager(FULL)
    kv.free("nobody")
    assert kv.usage == 0


@pytest.mark.feature("Sliding-window and chunked-local attention")
@given(st.sampled_from([FULL, WINDOW, RARE, STATE]), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_a_sequence_never_holds_more_than_was_foretold(spec, chunks):
    kv, computed, held = manager(spec, pages=100), 0, 0
    for n in chunks:
        assert kv.allocate_slots("a", computed, n)
        held = max(held, 99 - kv.pools[spec.group].num_free)
        slots = kv.slots("a", spec.group, computed, n)
        assert not np.any(slots == 0)
        assert len(set(slots[slots >= 0])) == np.count_nonzero(slots >= 0)
        computed += n
    assert held <= kv.groups[spec.group].most(computed, max(chunks))
    kv.free("a")
    assert kv.pools[spec.group].num_free == 99
