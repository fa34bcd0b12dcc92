"""Who goes first, who waits for whom, who gives way, and how many may be within their prompts."""

import random

import pytest

from tests.scheduler.world import commit, run, scheduler, sequence, work
from vtcore.errors import ArgumentError, QueueFullError
from vtcore.request import Request, Status
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.policies.lpm import LONGEST_QUEUE, PATIENCE
from vtcore.scheduler.scheduler import PASSED


def begun(plans):
    """Names in the order in which they began."""
    return list(dict.fromkeys(name for plan in plans for name, *_ in work(plan)))


def other(name, first, tokens=40, **options):
    """A prompt that shares nothing with one of another `first`."""
    return sequence(name, [first + i for i in range(tokens)], **options)


@pytest.mark.feature("Priority scheduling")
def test_the_lowest_number_first_and_of_equals_the_first_that_came():
    s = scheduler(scheduling_policy="priority", max_num_seqs=1)
    for name, priority in (("a", 2), ("b", 0), ("c", 1), ("d", 0), ("e", -1)):
        s.add(sequence(name, 4, priority=priority))
    assert begun(run(s)) == ["e", "b", "d", "c", "a"]


@pytest.mark.feature("Priority scheduling")
def test_out_of_pages_the_least_urgent_gives_its_own_back_though_it_came_first():
    s = scheduler(pages=6, max_num_seqs=2, scheduling_policy="priority")
    low, high = sequence("low", 7, 12, priority=1), sequence("high", 7, 12, priority=0)
    s.add(low)
    s.add(high)
    plans = run(s)
    assert (low.num_preemptions, high.num_preemptions) == (1, 0)
    [taken] = [p for p in plans if p.preempted]
    assert "low" not in [name for name, *_ in work(taken)]


@pytest.mark.feature("Priority scheduling")
@pytest.mark.parametrize(("threshold", "preempted"), [(None, 0), (0, 1), (1, 1), (2, 0)])
def test_one_that_waits_may_preempt_whoever_is_far_enough_behind(threshold, preempted):
    s = scheduler(scheduling_policy="priority", max_num_seqs=2, priority_preemption_threshold=threshold)
    first, second, urgent = sequence("a", 4, 9, priority=1), sequence("b", 4, 9, priority=2), sequence("c", 4, 9, priority=0)
    for r in (first, second):
        s.add(r)
        commit(s.plan(), s)
    s.add(urgent)
    plan = s.plan()
    assert len(plan.preempted) == preempted == second.num_preemptions
    assert ("c" in [name for name, *_ in work(plan)]) == bool(preempted)
    assert len(s.running) == 2
    run_rest = run(s)
    assert run_rest
    assert [len(r.output_token_ids) for r in (first, second, urgent)] == [9, 9, 9]
    assert s.kv.usage == 0


def test_nobody_is_preempted_for_one_that_would_still_not_fit():
    s = scheduler(pages=12, scheduling_policy="priority", priority_preemption_threshold=0)
    s.add(sequence("held", 20, 8, priority=0))
    s.add(sequence("low", 8, 8, priority=5))
    for _ in range(3):
        commit(s.plan(), s)
    assert [r.submission.request_id for r in s.running] == ["held", "low"]
    s.add(sequence("big", 30, 1, priority=1))
    assert s.plan().preempted == ()


@pytest.mark.feature("LPM cache-aware admission")
def test_whoever_finds_most_goes_first():
    s = scheduler(scheduling_policy="lpm", caching=True, max_num_seqs=1, max_num_batched_tokens=64)
    s.add(other("warm", 0))
    run(s)
    s.add(other("cold", 100))
    s.add(sequence("some", [*range(36), *range(500, 510)]))
    s.add(sequence("most", [*range(40), *range(600, 610)]))
    assert begun(run(s)) == ["most", "some", "cold"]


@pytest.mark.feature("In-batch prefix de-prioritization")
def test_of_several_that_share_what_is_not_there_one_computes_it():
    s = scheduler(scheduling_policy="lpm", caching=True, max_num_seqs=8, max_num_batched_tokens=200)
    for i in range(3):
        s.add(sequence(f"same{i}", [*range(40), 900 + i]))
    s.add(other("alone", 200))
    s.add(sequence("short", [*range(20), 950]))  # shares less than is worth waiting for
    plan = s.plan()
    assert work(plan) == [("same0", 0, 41), ("alone", 0, 40), ("short", 0, 21)]
    assert plan.waits == "it shares what another is going to compute"
    commit(plan, s)
    assert [w for w in work(s.plan()) if w[1]][-2:] == [("same1", 40, 1), ("same2", 40, 1)]


def test_without_a_cache_aware_policy_all_of_them_compute_it():
    s = scheduler(caching=True, max_num_seqs=8, max_num_batched_tokens=200)
    for i in range(3):
        s.add(sequence(f"same{i}", [*range(40), 900 + i]))
    assert [n for *_, n in work(s.plan())] == [41, 41, 41]


def test_a_long_queue_is_served_as_it_came():
    s = scheduler(scheduling_policy="lpm", caching=True, max_num_seqs=1, max_num_batched_tokens=64)
    s.add(other("warm", 0))
    run(s)
    for i in range(LONGEST_QUEUE):
        s.add(other(f"cold{i}", 100 * i + 100))
    s.add(sequence("found", [*range(40), 7]))
    assert work(s.plan())[0][0] == "cold0"
    s.finish(s.waiting[0], Status.ABORTED)
    s.finish(s.running[0], Status.ABORTED)
    assert work(s.plan())[0][0] == "found"


@pytest.mark.feature("LPM cache-aware admission")
def test_nobody_waits_for_ever_under_a_flood_of_those_that_find_more():
    s = scheduler(scheduling_policy="lpm", caching=True, max_num_seqs=1, max_num_batched_tokens=64)
    s.add(other("warm", 0))
    run(s)
    s.add(other("cold", 100))
    order, i = [], 0
    while "cold" not in order:
        while len(s.waiting) < 3:
            s.add(sequence(f"warm{i}", [*range(40), i], 1))
            i += 1
        plan = s.plan()
        order += [name for name, *_ in work(plan)]
        commit(plan, s)
        assert len(order) < 2 * PATIENCE
    assert len(order) == PATIENCE + 1


@pytest.mark.feature("LPM cache-aware admission")
def test_depth_first_serves_the_heaviest_branch_to_its_end():
    s = scheduler(scheduling_policy="dfs-weight", caching=True, max_num_seqs=5, max_num_batched_tokens=64, pages=400)
    for i, first in enumerate((0, 100)):
        s.add(other(f"warm{i}", first))
        run(s)
    s.add(sequence("b0", [*range(100, 140), 1]))
    s.add(other("cold", 500))
    for i in range(3):
        s.add(sequence(f"a{i}", [*range(20), *range(300 + i, 310 + i)]))
    assert begun(run(s)) == ["a0", "a1", "a2", "b0", "cold"]


@pytest.mark.feature("Partial-prefill concurrency")
def test_short_prompts_pass_long_ones_that_are_over_the_cap():
    limits = {"max_num_partial_prefills": 3, "max_long_partial_prefills": 1, "long_prefill_token_threshold": 10}
    s = scheduler(max_num_batched_tokens=30, max_num_seqs=6, **limits)
    s.add(other("long0", 0, 50))
    s.add(other("long1", 100, 50))
    s.add(other("short0", 200, 8))
    s.add(other("short1", 300, 8))
    plan = s.plan()
    assert work(plan) == [("long0", 0, 10), ("short0", 0, 8), ("short1", 0, 8)]
    assert plan.waits == "max_long_partial_prefills, 1, are within their prompts"
    assert [r.submission.request_id for r in s.waiting] == ["long1"]
    assert len(run(s)) < 30


def test_a_step_passes_over_so_many_at_most():
    s = scheduler(max_num_batched_tokens=30, max_num_seqs=6, long_prefill_token_threshold=10)
    for i in range(PASSED + 1):
        s.add(other(f"long{i}", 100 * i, 30))
    s.add(other("short", 7, 5))
    assert work(s.plan()) == [("long0", 0, 10)]
    s.finish(s.waiting[0], Status.ABORTED)
    assert work(s.plan()) == [("long0", 0, 10), ("short", 0, 5)]


@pytest.mark.feature("Partial-prefill concurrency")
def test_prompts_that_go_over_several_steps_share_a_step_evenly():
    s = scheduler(max_num_batched_tokens=30, max_num_seqs=6, max_num_partial_prefills=3, max_long_partial_prefills=3)
    for i in range(4):
        s.add(other(f"p{i}", 100 * i, 40))
    assert work(s.plan()) == [("p0", 0, 10), ("p1", 0, 10), ("p2", 0, 10)]


@pytest.mark.feature("Partial-prefill concurrency")
def test_the_threshold_holds_where_others_are_there():
    s = scheduler(max_num_batched_tokens=30, long_prefill_token_threshold=10)
    s.add(other("a", 0, 40))
    assert work(s.plan()) == [("a", 0, 30)]
    s = scheduler(max_num_batched_tokens=30, long_prefill_token_threshold=10)
    s.add(other("a", 0, 40))
    s.add(other("b", 100, 10))
    s.add(other("c", 200, 40))
    plan = s.plan()
    assert work(plan) == [("a", 0, 10), ("b", 0, 10)]
    assert plan.waits == "max_long_partial_prefills, 1, are within their prompts"


@pytest.mark.feature("Continuous batching")
def test_under_a_flood_of_prompts_whoever_decodes_gets_a_token_in_every_step():
    rng = random.Random(0)
    s = scheduler(max_num_batched_tokens=16, max_num_seqs=4, pages=40)
    talk = sequence("talk", 3, 30)
    s.add(talk)
    commit(s.plan(), s)
    for i in range(60):
        if not talk.finished:
            s.add(other(f"f{i}", 100 * i, rng.randint(10, 40)))
            before = len(talk.output_token_ids)
            commit(s.plan(), s)
            assert len(talk.output_token_ids) == before + 1
    assert talk.finished
    run(s)


def test_sequences_of_one_request_wait_for_the_first_to_compute_the_prompt():
    s = scheduler(caching=True, max_num_seqs=4, max_num_batched_tokens=10)
    r = sequence("n", 14)
    submission = r.submission
    submission.requests = [r, Request(submission, 1, seed=1), Request(submission, 2, seed=2)]
    for one in submission.requests:
        s.add(one)
    first = s.plan()
    assert work(first) == [("n", 0, 10)]
    commit(first, s)
    second = s.plan()
    assert work(second) == [("n", 10, 4)]
    assert second.waits == "the request's first sequence computes the prompt for all of them"
    commit(second, s)
    assert work(s.plan()) == [("n", 14, 1), ("n", 13, 1), ("n", 13, 1)]
    assert s.kv.stats().hits == 26


@pytest.mark.parametrize("limit", ["max_num_queued_reqs", "max_num_queued_tokens"])
def test_a_full_queue_takes_no_more_and_says_so(limit):
    s = scheduler(max_num_seqs=2, **{limit: 3 if limit.endswith("reqs") else 15})
    for i in range(5):
        r = sequence(str(i), 5)
        s.check_room([r])
        s.add(r)
    with pytest.raises(QueueFullError, match=rf"would wait beside the 2 sequences that may run; {limit} is (3|15): try again"):
        s.check_room([sequence("more", 5)])
    run(s)
    s.check_room([sequence("more", 5)])


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"scheduling_policy": "sjf"}, "scheduling_policy is 'sjf'; it must be one of fcfs, priority, lpm, dfs-weight"),
        ({"long_prefill_token_threshold": 65}, "no prompt is longer than max_model_len, 64"),
        ({"long_prefill_token_threshold": 32, "max_num_batched_tokens": 32}, "no more of a prompt than max_num_batched_tokens, 32"),
        ({"long_prefill_token_threshold": 64, "max_num_batched_tokens": 99}, "no more of a prompt than max_model_len, 64"),
        (
            {
                "long_prefill_token_threshold": 32,
                "max_num_batched_tokens": 32,
                "max_num_partial_prefills": 2,
                "max_long_partial_prefills": 2,
            },
            "while max_long_partial_prefills is not below max_num_partial_prefills",
        ),
        ({"scheduling_policy": ["fcfs"]}, "it must be one of fcfs"),
        ({"max_long_partial_prefills": 2}, "more than max_num_partial_prefills, 1, would have no effect"),
        ({"max_num_partial_prefills": 5}, "more than max_num_seqs, 4, would have no effect"),
        ({"priority_preemption_threshold": 0}, "no effect under scheduling_policy 'fcfs': it needs 'priority'"),
        ({"max_num_queued_reqs": 0}, "max_num_queued_reqs is 0; it must be an integer of at least 1"),
        ({"max_num_queued_tokens": 1.5}, "max_num_queued_tokens is 1.5"),
        ({"long_prefill_token_threshold": -1}, "at least 0"),
    ],
)
def test_limits_that_are_wrong_or_do_nothing(limits, words):
    with pytest.raises(ArgumentError, match=words):
        scheduler(**limits)


def test_who_asks_not_to_read_the_cache_computes_all():
    """A sequence that asks not to read the cache begins at its first token, and leaves its pages for others."""
    s = scheduler(caching=True, max_num_batched_tokens=64)
    s.add(other("a", 0))
    run(s)
    again = other("b", 0)
    again.submission.params = SamplingParams(max_tokens=3, skip_reading_prefix_cache=True)
    s.add(again)
    assert work(s.plan()) == [("b", 0, 40)]
