"""What the log tells is what the pool holds, as a reader that knows nothing else puts it together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kvcache.offload.test_offload import FULL, PROMPTS, STATE, WINDOW, A, B, World, host
from vtcore.kvcache.cache import Paged, State
from vtcore.kvcache.events.log import EventLog
from vtcore.kvcache.identity import Identity, Media


def world(specs, pages=20, tiers=(), unit=4) -> World:
    made = World(specs, pages, tiers, unit)
    below = made.kv.below
    below.events = EventLog({s.group: s for s in specs}, unit)
    if below.offload is not None:
        below.offload.events = below.events
    below.attach(made.kv.pools)
    return made


def low(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big")


def chain(w: World, tokens, identity=None):
    return w.kv.chain(lambda begin, end: tokens[begin:end], len(tokens), False, identity or Identity())


def test_one_event_for_consecutive_blocks_with_the_one_before_them():
    w = world([FULL])
    w.run([*A[:9], 1])
    [stored] = w.kv.below.events.take()
    c = chain(w, A)
    assert stored == {
        "type": "BlockStored",
        "block_hashes": [low(c.key(4)), low(c.key(8))],
        "parent_block_hash": None,
        "token_ids": A[:8],
        "block_size": 4,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    w.run([*A[:16], 1])
    [stored] = w.kv.below.events.take()
    assert stored["block_hashes"] == [low(c.key(12)), low(c.key(16))]
    assert stored["parent_block_hash"] == low(c.key(8))
    assert stored["token_ids"] == A[8:16]
    assert w.kv.below.events.take() == []


def test_what_is_taken_for_others_is_told_and_a_reset_as_well():
    w = world([FULL], pages=10)
    w.run([*A, 1])
    first = w.kv.below.events.take()[0]["block_hashes"]
    w.run([*B[:8], 1])
    removed = [e for e in w.kv.below.events.take() if e["type"] == "BlockRemoved"]
    assert [e["block_hashes"] for e in removed] == [[first[7]], [first[6]]]  # the tail goes first; the last page had no key
    assert {e["medium"] for e in removed} == {"GPU"}
    assert w.kv.reset()
    assert w.kv.below.events.take() == [{"type": "AllBlocksCleared"}]
    w.run([*A, 1])
    assert w.kv.below.events.take()[0]["block_hashes"] == first


def test_groups_are_told_apart():
    w = world([replace(FULL, heads=True), replace(WINDOW, heads=True), STATE])
    w.run([*A[:9], 1])
    events = w.kv.below.events.take()
    assert [(e["group_idx"], e["kv_cache_spec_kind"]) for e in events] == [(0, "full_attention"), (1, "sliding_window"), (2, "mamba")]
    assert events[1]["kv_cache_spec_sliding_window"] == 6
    assert "kv_cache_spec_sliding_window" not in events[0]
    assert events[2]["token_ids"] == A[4:8]
    assert events[2]["parent_block_hash"] == events[0]["block_hashes"][0]


def test_the_host_s_copies_are_told_as_such():
    w = world([FULL], 10, [host(3)])
    w.run([*A, 1])
    w.kv.below.events.take()
    w.run([*B, 1])
    told = [(e["type"], e["medium"]) for e in w.kv.below.events.take()]
    assert told.count(("BlockStored", "CPU")) == 8
    assert told.count(("BlockRemoved", "CPU")) == 5
    assert told.count(("BlockRemoved", "GPU")) == 8


def test_what_came_back_is_told_as_stored_again():
    w = world([FULL], 10, [host(50)])
    w.run([*A, 1])
    w.run([*B, 1])
    w.kv.below.events.take()
    w.run([*A, 2])
    [stored] = [e for e in w.kv.below.events.take() if e["type"] == "BlockStored" and e["medium"] == "GPU"]
    assert stored["token_ids"] == A
    assert stored["parent_block_hash"] is None


def test_what_else_a_key_depends_on_is_told_by_block():
    w = world([FULL])
    identity, name = Identity("adapter", (Media("d1", 5, 2),), "salt"), object()
    c = chain(w, A, identity)
    w.kv.admit(name, c, 11, 12, 64)
    w.kv.allocate_slots(name, 0, 12)
    w.kv.settle(name, 0, 12)
    [stored] = w.kv.below.events.take()
    assert stored["lora_name"] == "adapter"
    assert stored["extra_keys"] == [["adapter", "salt"], ["adapter", ("d1", 1)], ["adapter"]]


def test_a_prompt_s_length_on_which_angles_depend_is_told_by_its_name():
    w = world([FULL])
    c = chain(w, A, Identity(rope=12))
    w.kv.admit("a", c, 11, 12, 64)
    w.kv.allocate_slots("a", 0, 12)
    w.kv.settle("a", 0, 12)
    [stored] = w.kv.below.events.take()
    assert stored["extra_keys"] == [[("rope", 12)], None, None]


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (Paged({"k": (2, 4)}, heads=True), "full_attention"),
        (Paged({"k": (2, 4)}, heads=True, window=6), "sliding_window"),
        (Paged({"k": (2, 4)}, heads=True, chunk=8), "chunked_local_attention"),
        (Paged({"latent": (4,)}), "mla_attention"),
        (Paged({"latent": (4,)}, window=6), "sliding_window_mla"),
        (Paged({"k": (2, 4)}, of="encoder", heads=True, longest=9), "cross_attention"),
        (State({"s": (4,)}), "mamba"),
    ],
)
def test_what_a_group_keeps_has_vllm_s_name(spec, kind):
    log = EventLog({"one": spec, "other": State({"s": (4,)})}, 4)
    log.saved("one", [b"key"])
    [stored] = log.take()
    assert stored["kv_cache_spec_kind"] == kind
    assert stored.get("kv_cache_spec_sliding_window", 0) == getattr(spec, "window", 0)


def test_whole_hashes_where_they_are_asked_for(monkeypatch):
    monkeypatch.setenv("VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", "0")
    w = world([FULL])
    w.run([*A[:5]])
    assert w.kv.below.events.take()[0]["block_hashes"] == [chain(w, A).key(4)]


@pytest.mark.feature("KV events (block create / evict publish)")
@given(prompts=PROMPTS, pages=st.integers(9, 14), unit=st.sampled_from([4, 2]), tier=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_reader_knows_what_the_pool_has(prompts, pages, unit, tier):
    w = world([FULL], pages, [host(4)] if tier else [], unit)
    known: dict[str, set[int]] = {"GPU": set(), "CPU": set()}
    for tokens, step in prompts:
        w.run(tokens, step)
        for event in w.kv.below.events.take():
            place, hashes = known[event["medium"]], set(event["block_hashes"])
            if event["type"] == "BlockStored":
                assert not hashes & place
                place |= hashes
                assert len(event["token_ids"]) in (0, event["block_size"] * len(hashes))
            else:
                assert hashes <= place
                place -= hashes
        there = {low(key) for _, keys in w.kv.pools[FULL.group].kept() for key in keys}
        assert known["GPU"] <= there
        if not tier:
            assert known["GPU"] == there
