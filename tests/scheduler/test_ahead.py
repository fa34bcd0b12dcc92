"""Plans made while a step computes: what they count on, what they leave to the next, and pages that nobody has yet."""

import pytest

from tests.scheduler.world import WINDOW, scheduler, sequence, work
from vtcore.errors import ArgumentError
from vtcore.kvcache.cache import State
from vtcore.kvcache.pool import PagePool
from vtcore.request import Status


def launched(s):
    """The next step, on its way."""
    plan = s.plan()
    s.launch(plan)
    return plan


def land(plan, s, token=7):
    """As the engine does it."""
    through = [p.request for p in plan.scheduled if p.whole]
    s.land(plan)
    for request in through:
        request.output_token_ids.append(token)


@pytest.mark.feature("Async / overlap scheduling")
def test_it_counts_on_what_computes_and_on_a_token_of_each_that_comes_through():
    s = scheduler(max_num_batched_tokens=8)
    for name, n in (("a", 3), ("b", 12)):
        s.add(sequence(name, n))
    launched(s)
    assert work(s.plan_ahead()) == [("a", 3, 1), ("b", 5, 7)]


def test_asked_again_it_plans_the_same():
    s = scheduler()
    s.add(sequence("a", 3))
    first = launched(s)
    ahead = s.plan_ahead()
    assert work(s.plan_ahead()) == work(ahead) == [("a", 3, 1)]
    land(first, s)
    assert work(s.plan()) == [("a", 3, 1)]


def test_who_comes_to_his_end_is_not_planned_again_and_leaves_his_place():
    s = scheduler(max_num_seqs=1)
    for name in "ab":
        s.add(sequence(name, 3, wanted=1))
    launched(s)
    assert work(s.plan_ahead()) == [("b", 0, 3)]


def test_nobody_gives_up_pages_that_are_being_written():
    s = scheduler(pages=6)
    for name in "ab":
        s.add(sequence(name, 8, wanted=8))
    first = launched(s)
    assert s.plan_ahead() is None
    land(first, s)
    plan = s.plan()
    assert work(plan) == [("a", 8, 1)]
    assert [r.submission.request_id for r in plan.preempted] == ["b"]


def test_the_same_for_those_that_give_way_to_a_higher_priority():
    s = scheduler(pages=6, scheduling_policy="priority", priority_preemption_threshold=0)
    s.add(sequence("low", 12, priority=2))
    first = launched(s)
    s.add(sequence("high", 12, priority=1))
    assert s.plan_ahead() is None
    land(first, s)
    assert [r.submission.request_id for r in s.plan().preempted] == ["low"]


def test_pages_given_back_join_the_queue_when_the_step_lands():
    pool = PagePool(4)
    pages = pool.take(3)
    pool.launch()
    pool.release(pages[:2])
    assert (pool.num_free, pool.num_parked) == (0, 2)
    pool.land()
    assert (pool.num_free, pool.num_parked) == (2, 0)


def test_a_page_that_waits_to_be_free_can_be_shared():
    pool = PagePool(3)
    [page] = pool.take(1)
    pool.keep(page, b"key")
    pool.launch()
    pool.release([page])
    pool.share([pool.find(b"key")])
    pool.land()
    assert (pool.holders(page), pool.num_free) == (1, 1)


def test_what_falls_out_of_a_window_is_free_after_the_step_that_wrote_it():
    s = scheduler(groups=(WINDOW,), max_num_batched_tokens=32)
    s.add(sequence("a", 20))
    first = launched(s)
    pool = s.kv.pools[WINDOW.group]
    free = pool.num_free
    s.plan_ahead()
    assert pool.num_parked
    assert pool.num_free < free + 1
    land(first, s)
    assert pool.num_free > free


def test_of_a_token_that_is_not_known_yet_there_is_no_key():
    s = scheduler(groups=(State({"k": (1, 4)}),), caching=True, mamba_block_size=4)
    a = sequence("a", 3)
    s.add(a)
    first = launched(s)
    ahead = s.plan_ahead()
    assert not a.chain.known(4)
    with pytest.raises(AssertionError, match="a key of 4 tokens, of which 3 are known"):
        a.chain.key(4)
    land(first, s)
    s.launch(ahead)
    assert s.kv.lookup(a.chain, 4) == 4


def test_a_fault_takes_back_what_could_be_found():
    s = scheduler(caching=True)
    a, b = sequence("a", 9), sequence("b", 9)
    s.add(a)
    first = launched(s)
    s.add(b)
    assert work(s.plan_ahead())[1] == ("b", 8, 1)
    [name] = s.kv.groups
    s.rewind(first, {name: s.kv.slots(a, name, 0, 9)})
    assert s.waiting == [a, b]
    assert (a.promised, s.kv.usage) == (0, 0)
    assert work(s.plan()) == [("a", 0, 9), ("b", 0, 7)]


def test_an_end_in_flight_gives_back_all_of_it():
    s = scheduler()
    a = sequence("a", 3)
    s.add(a)
    first = launched(s)
    s.finish(a, Status.ABORTED)
    assert s.kv.usage > 0
    land(first, s)
    assert s.kv.usage == 0


def test_it_is_on_or_off():
    with pytest.raises(ArgumentError, match="async_scheduling is 1; it must be True or False"):
        scheduler(async_scheduling=1)
