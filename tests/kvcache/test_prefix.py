"""What the manager finds of sequences before: how far, in which groups, and what it takes to go on from there."""

import numpy as np
import pytest

from tests.fakes import FarMemory, far_view
from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import Cache, Paged, State
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.identity import Identity
from vtcore.kvcache.manager import KVCacheManager
from vtcore.memory import HOST
from vtcore.ops import write_pages

SHAPES = {"k": (1, 4)}
FULL, WINDOW, CHUNK = Paged(SHAPES), Paged(SHAPES, window=6), Paged(SHAPES, chunk=8)
RARE, STATE = Paged(SHAPES, every=4), State(SHAPES)
TOKENS = list(range(64))


def manager(*specs, pages=40, size=4, **caching):
    groups = {s.group: s for s in specs}
    return KVCacheManager(groups, dict.fromkeys(groups, pages), CacheConfig(size, **caching))


def run(kv, name, tokens, prompt=None, step=64, forks=False, limit=None):
    """A sequence through all of its tokens: how many of them it found."""
    chain = kv.chain(lambda begin, end: tokens[begin:end], prompt or len(tokens), forks, Identity())
    found = kv.admit(name, chain, len(tokens) - 1 if limit is None else limit, len(tokens), step)
    assert found is not None
    at = found
    while at < len(tokens):
        n = min(step, len(tokens) - at)
        assert kv.allocate_slots(name, at, n)
        kv.settle(name, at, at + n)
        at += n
    return found


@pytest.mark.feature("Automatic prefix caching")
@pytest.mark.parametrize(("length", "found"), [(32, 31 // 4 * 4), (16, 12), (31, 28), (33, 32), (1, 0), (4, 0), (5, 4)])
def test_a_prompt_that_is_there_already_keeps_its_last_token_to_compute(length, found):
    kv = manager(FULL)
    run(kv, "a", TOKENS[:40])
    kv.free("a")
    assert run(kv, "b", TOKENS[:length]) == found
    assert kv.read("b", FULL.group, 0)[: found // 4] == [1 + i for i in range(found // 4)]


def test_pages_are_shared_while_both_live_and_free_after_both():
    kv = manager(FULL)
    run(kv, "a", TOKENS[:16])
    run(kv, "b", [*TOKENS[:8], 1, 2, 3])
    a, b = kv.read("a", FULL.group, 0), kv.read("b", FULL.group, 0)
    assert a[:2] == b[:2]
    assert a[2] != b[2]
    assert kv.pools[FULL.group].holders(a[0]) == 2
    kv.free("a")
    kv.free("b")
    assert kv.usage == 0
    assert kv.stats().pools[FULL.group].cached == 4


@pytest.mark.feature("Prefix-cache matching unit")
@pytest.mark.parametrize(("unit", "found"), [(8, 8), (4, 12), (2, 14), (1, 15)])
def test_a_unit_finer_than_a_page_is_found_by_a_copy(unit, found):
    kv = manager(FULL, size=8, prefix_match_unit=unit)
    run(kv, "a", TOKENS[:21])
    other = [*TOKENS[:15], 99]
    chain = kv.chain(lambda begin, end: other[begin:end], 16, False, Identity())
    assert kv.admit("c", chain, 15, 16, 64) == found
    copies = list(kv.copies(["c"]))
    own = kv.read("c", FULL.group, 0)
    assert copies == ([] if unit == 8 else [(FULL.group, kv.read("a", FULL.group, 0)[1], own[1])])
    assert not copies or kv.pools[FULL.group].holders(own[1]) == 1


@pytest.mark.feature("Sliding-window and chunked-local attention")
def test_a_window_needs_the_last_pages_alone():
    kv = manager(FULL, WINDOW)
    run(kv, "a", TOKENS[:40], step=4)
    kv.free("a")
    pool = kv.pools[WINDOW.group]
    old = [pool.find(kv.chain(lambda b, e: TOKENS[b:e], 64, False, Identity()).key(n)) for n in range(4, 25, 4)]
    for page in old:
        pool.forget(page)
    assert run(kv, "b", TOKENS[:40]) == 36  # token 36 looks at 31 ... 36
    assert kv.read("b", WINDOW.group, 36)[:7] == [0] * 7
    kv.free("b")
    assert run(kv, "c", TOKENS[:30]) == 0  # 28 is not served: 23 ... 28 lie on pages that are gone


def test_a_window_s_pages_that_fell_out_are_found_while_they_last():
    kv = manager(WINDOW, pages=12)
    run(kv, "a", TOKENS[:40], step=4)
    assert kv.pools[WINDOW.group].num_free == 11 - 3
    assert run(kv, "b", TOKENS[:18]) == 16


@pytest.mark.feature("Sliding-window and chunked-local attention")
def test_a_chunk_needs_what_its_own_tokens_look_at():
    kv = manager(CHUNK)
    run(kv, "a", TOKENS[:22], step=2)
    assert kv.read("a", CHUNK.group, 20)[:4] == [0, 0, 0, 0]  # token 20 looks at 16 ... 20
    assert kv.pools[CHUNK.group].num_free == 39 - 2
    kv.pools[CHUNK.group].forget_all()
    kv.settle("a", 16, 22)
    assert run(kv, "b", TOKENS[:22]) == 20
    kv.pools[CHUNK.group].forget_all()
    assert kv.lookup(kv.chain(lambda b, e: TOKENS[b:e], 17, False, Identity()), 16) == 16  # nothing before a chunk is looked at


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
def test_a_state_is_found_where_it_was_kept():
    kv = manager(FULL, STATE, mamba_block_size=12)
    run(kv, "a", TOKENS[:40], step=40)
    assert [n for n in range(4, 41, 4) if kv.pools[STATE.group].find(kv.chain(lambda b, e: TOKENS[b:e], 40, False, Identity()).key(n))] == [
        12, 24, 36,
    ]  # fmt: skip
    kv.free("a")
    assert run(kv, "b", [*TOKENS[:31], 99]) == 24
    assert run(kv, "c", TOKENS[:40]) == 36


def test_where_two_prompts_part_the_second_keeps_a_state_for_the_third():
    kv = manager(FULL, STATE, mamba_block_size=48)
    run(kv, "a", TOKENS[:40])
    assert run(kv, "b", [*TOKENS[:22], *range(200, 210)], step=7) == 0
    assert run(kv, "c", [*TOKENS[:22], *range(300, 310)]) == 20


def test_a_found_state_is_read_once_and_then_one_s_own():
    kv = manager(STATE, mamba_block_size=4)
    run(kv, "a", TOKENS[:6])
    chain = kv.chain(lambda b, e: TOKENS[b:e], 7, False, Identity())
    assert kv.admit("b", chain, 6, 7, 64) == 4
    kept = kv.pools[STATE.group].find(chain.key(4))
    assert kv.allocate_slots("b", 4, 1)
    assert kv.read("b", STATE.group, 4) == [kept]
    [own] = kv.slots("b", STATE.group, 4, 1)
    kv.settle("b", 4, 5)
    assert kv.read("b", STATE.group, 5) == [own] != [kept]
    assert kv.pools[STATE.group].holders(kept) == 0


def test_a_state_that_is_kept_at_the_end_of_a_chunk_is_where_the_next_begins():
    kv = manager(STATE, mamba_block_size=4)
    chain = kv.chain(lambda b, e: TOKENS[b:e], 12, False, Identity())
    assert kv.admit("a", chain, 11, 12, 64) == 0
    assert kv.allocate_slots("a", 0, 8)
    first = kv.slots("a", STATE.group, 0, 8)
    assert np.flatnonzero(first >= 0).tolist() == [3, 7]
    kv.settle("a", 0, 8)
    assert kv.read("a", STATE.group, 8) == [first[7]]
    assert [kv.pools[STATE.group].find(chain.key(n)) for n in (4, 8)] == [first[3], first[7]]


def test_without_a_free_slot_no_state_is_kept_and_nobody_waits():
    kv = manager(STATE, pages=2, mamba_block_size=4)
    assert run(kv, "a", TOKENS[:20]) == 0
    assert kv.pools[STATE.group].num_free == 0


def test_groups_agree_on_what_all_of_them_have():
    kv = manager(FULL, WINDOW, RARE, STATE, mamba_block_size=8)
    run(kv, "a", TOKENS[:40])
    kv.free("a")
    assert run(kv, "b", TOKENS[:39]) == 36
    kv.pools[RARE.group].forget(kv.read("b", RARE.group, 36)[0])
    kv.free("b")
    assert run(kv, "c", TOKENS[:39]) == 0


@pytest.mark.parametrize("length", [12, 13, 16, 17])
def test_the_prompt_of_several_sequences_is_shared_to_its_last_token_but_one(length):
    kv = manager(FULL, RARE, STATE, size=4)
    assert run(kv, "a", [*TOKENS[:length], 5, 5], prompt=length, forks=True) == 0
    assert run(kv, "b", TOKENS[:length], forks=True) == length - 1
    assert run(kv, "c", TOKENS[:length]) == (length - 1) // 4 * 4


def test_whoever_would_only_copy_begins_anew_where_pages_are_short():
    """Pages for one sequence alone: the copy's source would take one more."""
    kv = manager(FULL, pages=5, prefix_match_unit=1)
    run(kv, "a", TOKENS[:15])
    kv.free("a")
    assert run(kv, "b", [*TOKENS[:6], *range(50, 59)], step=4) == 0
    kv.free("b")
    assert kv.usage == 0


def test_after_a_reset_nothing_is_found():
    kv = manager(FULL)
    run(kv, "a", TOKENS[:16])
    assert not kv.reset()
    kv.free("a")
    assert kv.reset()
    assert run(kv, "b", TOKENS[:16]) == 0


def test_what_a_failed_forward_wrote_is_not_found():
    kv = manager(FULL, prefix_match_unit=2)
    run(kv, "a", TOKENS[:14])
    kv.forget({FULL.group: kv.slots("a", FULL.group, 13, 1)})
    kv.free("a")
    assert run(kv, "b", TOKENS[:14]) == 12


def test_hits_are_counted_in_tokens_and_pages_add_up():
    kv = manager(FULL, pages=8)
    for name in "ab":
        found = run(kv, name, TOKENS[:20])
        kv.count(20, found, preempted=name == "b")
        kv.free(name)
    run(kv, "c", TOKENS[30:58])
    stats = kv.stats()
    assert (stats.queries, stats.hits, stats.preempted_queries, stats.preempted_hits) == (20, 0, 20, 16)
    pool = stats.pools[FULL.group]
    assert (pool.total, pool.held, pool.free, pool.cached) == (7, 7, 0, 0)
    assert stats.evictions == pool.evictions == 5
    assert stats.usage == 1


def test_a_page_is_copied_in_every_memory_where_it_is_true():
    cache, far = Cache({(0, "kv"): FULL, (1, "kv"): WINDOW}, 6, 4), FarMemory()
    k = cache.arrays[0, "kv"]["k"]
    write_pages(k.numpy(), np.arange(8, dtype=np.float32).reshape(2, 1, 4), np.array([8, 9]))
    k.storage.wrote(HOST)
    cache.copy(FULL.group, 2, 5)
    np.testing.assert_array_equal(k.numpy()[5], k.numpy()[2])
    k.storage.at(far)
    far_view(k, far)[3] = 7
    k.storage.wrote(far, np.array([3]))
    cache.copy(FULL.group, 3, 1)
    assert (far_view(k, far)[1] == 7).all()
    assert (k.numpy()[1] == 7).all()
    assert not cache.arrays[1, "kv"]["k"].storage.copies


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefix_match_unit": 3}, "prefix_match_unit is 3; it must divide block_size, which is 4"),
        ({"mamba_block_size": 6}, "mamba_block_size is 6; it must be a multiple of the prefix-match unit, 4"),
        ({"enable_prefix_caching": False, "prefix_match_unit": 2}, "no effect without prefix caching"),
        ({"enable_prefix_caching": False, "mamba_block_size": 8}, "no effect without prefix caching"),
        ({"enable_prefix_caching": False, "prefix_caching_hash_algo": "xxhash"}, "no effect without prefix caching"),
        ({"enable_prefix_caching": 1}, "enable_prefix_caching is 1; it must be True or False"),
        ({"prefix_caching_hash_algo": "md5"}, "choose one of sha256, sha256_cbor"),
        ({"num_gpu_blocks_override": 1}, "num_gpu_blocks_override is 1; it must be an integer from 2"),
    ],
)
def test_options_that_are_wrong_or_do_nothing(options, words):
    with pytest.raises(ArgumentError, match=words):
        manager(FULL, **options)
    with pytest.raises(ArgumentError, match="no layer of this model keeps a state"):
        CacheConfig(4, mamba_block_size=8).suits([FULL])


def test_a_page_that_a_failed_forward_was_to_copy_into_is_not_found():
    kv = manager(RARE, prefix_match_unit=2)
    run(kv, "a", TOKENS[:10])
    kv.free("a")
    chain = kv.chain(lambda begin, end: TOKENS[begin:end], 12, False, Identity())
    assert kv.admit("b", chain, 11, 12, 12) == 10
    kv.allocate_slots("b", 10, 2)
    copies = list(kv.copies(["b"]))
    kv.settle("b", 10, 12)
    assert kv.lookup(chain, 12) == 12
    kv.forget({RARE.group: np.full(2, -1)}, copies)
    assert kv.lookup(chain, 12) == 10
