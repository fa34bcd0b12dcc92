"""Add, abort, finish, preempt, evict, fail, reset, in any order: a model of every page's content, and of who holds it."""

import random
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tools.soak_scheduler import random_event, random_world, soak
from vtcore.kvcache.manager import KVCacheManager
from vtcore.kvcache.pool import PagePool


class Serving(RuleBasedStateMachine):
    """One world. Every step of it checks itself."""

    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed):
        self.world = random_world(random.Random(seed))

    @rule(
        shared=st.integers(0, 30), own=st.lists(st.integers(0, 2), min_size=1, max_size=12), wanted=st.integers(1, 12), n=st.integers(1, 3)
    )
    def add(self, shared, own, wanted, n):
        self.world.add([i % 3 for i in range(shared)] + own, wanted, n)

    @rule(which=st.integers(0, 99))
    def abort(self, which):
        self.world.abort(which)

    @rule(times=st.integers(1, 8))
    def steps(self, times):
        for _ in range(times):
            self.world.step()

    @rule()
    def fail(self):
        self.world.step(fails=True)

    @rule(running=st.booleans())
    def reset(self, running):
        self.world.reset(running)

    def teardown(self):
        for _ in range(3000):
            if self.world.idle:
                return
            self.world.step()
        raise AssertionError("sequences don't come to an end")


Serving.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestServing = Serving.TestCase


@pytest.mark.feature("Block-paged KV with refcount and LRU evict")
@pytest.mark.feature("Preemption and recompute")
@pytest.mark.feature("Continuous batching")
def test_a_few_thousand_random_steps():
    counts = soak(2000, seed=1)
    assert all(counts[name] for name in ("preempted", "copies", "found", "evicted", "failed", "aborted", "resets"))


@pytest.mark.feature("Async / overlap scheduling")
def test_steps_that_are_planned_while_others_compute():
    counts = soak(2000, seed=2)
    assert all(counts[name] for name in ("ahead", "too early", "late", "gone"))


@pytest.mark.feature("Async / overlap scheduling")
@pytest.mark.parametrize("broken", [PagePool, KVCacheManager])
def test_pages_that_could_be_taken_at_once_are_taken_while_a_step_writes_them(broken, monkeypatch):
    monkeypatch.setattr(broken, "launch", lambda self: None)
    with pytest.raises(AssertionError, match="is taken while a step writes it"):
        soak(2000, seed=2)


@pytest.mark.parametrize("broken", ["copies", "settle twice", "kept too long"])
def test_the_model_sees_a_mistake(broken, monkeypatch):
    """Otherwise it would prove nothing."""
    if broken == "copies":
        monkeypatch.setattr(KVCacheManager, "copies", lambda self, keys: iter(()))
    elif broken == "settle twice":
        kept = KVCacheManager.settle
        monkeypatch.setattr(KVCacheManager, "settle", lambda self, key, begin, end: kept(self, key, begin, end + 1))
    else:
        monkeypatch.setattr(KVCacheManager, "forget", lambda self, written: None)
        monkeypatch.setattr(KVCacheManager, "free", lambda self, key: None)
    with pytest.raises((AssertionError, IndexError)):
        soak(2000, seed=1)


def test_worlds_differ():
    rng = random.Random(0)
    worlds = [random_world(rng) for _ in range(40)]
    for world in worlds:
        for _ in range(20):
            random_event(world, rng)
    assert any(a.config != b.config for a, b in pairwise(worlds))
    assert len({w.config.scheduling_policy for w in worlds}) == 4
    assert len({w.config.async_scheduling for w in worlds}) == 2
