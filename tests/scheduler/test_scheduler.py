"""Who computes what next: budget, order, admission, preemption, and pages that all come back. No model takes part."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.world import FULL, WINDOW, commit, run, scheduler, sequence, work
from vtcore.errors import ArgumentError
from vtcore.request import Status
from vtcore.sampling_params import SamplingParams


@pytest.mark.feature("Continuous batching")
@pytest.mark.feature("Chunked prefill")
def test_first_come_first_served_within_the_budget():
    s = scheduler()
    for name, n in (("a", 6), ("b", 12), ("c", 3)):
        s.add(sequence(name, n))
    first = s.plan()
    assert work(first) == [("a", 0, 6), ("b", 0, 10)]
    assert first.waits == "max_num_batched_tokens, 16, is spent"
    commit(first, s)
    assert work(s.plan()) == [("a", 6, 1), ("b", 10, 2), ("c", 0, 3)]


def test_those_that_decode_come_before_those_within_their_prompt():
    s = scheduler(max_num_batched_tokens=4)
    s.add(sequence("long", 30))
    s.add(sequence("short", 2))
    commit(s.plan(), s)
    s.running.append(s.waiting.pop(0))  # as if it had been admitted beside the long one
    s.running[-1].status = Status.RUNNING
    s.kv.allocate_slots(s.running[-1], 0, 2)
    s.running[-1].num_computed_tokens = 1
    assert work(s.plan()) == [("short", 1, 1), ("long", 4, 3)]


def test_the_number_that_runs_is_capped():
    s = scheduler(max_num_seqs=2)
    for name in "abc":
        s.add(sequence(name, 2))
    plan = s.plan()
    assert work(plan) == [("a", 0, 2), ("b", 0, 2)]
    assert plan.waits == "max_num_seqs, 2, are running"


def test_a_prompt_waits_until_all_of_it_has_pages():
    s = scheduler(pages=6)  # 5 pages of 4
    s.add(sequence("a", 10, 2))  # 3 pages
    s.add(sequence("b", 12, 2))  # 4 pages with its next token
    plan = s.plan()
    assert work(plan) == [("a", 0, 10)]
    assert plan.waits is not None
    assert "b need more pages" in plan.waits
    run(s)


@pytest.mark.feature("Preemption and recompute")
def test_out_of_pages_the_last_one_gives_back_and_starts_again():
    s = scheduler(pages=6, max_num_seqs=2)
    a, b = sequence("a", 7, 12), sequence("b", 7, 12)  # 2 pages each, later 5
    s.add(a)
    s.add(b)
    plans = run(s)
    assert a.num_preemptions == 0
    assert b.num_preemptions == 1
    assert [p.preempted for p in plans if p.preempted] == [(b,)]
    assert len(a.output_token_ids) == len(b.output_token_ids) == 12
    assert s.kv.usage == 0


def test_planned_again_without_a_commit_it_is_the_same_work():
    s = scheduler()
    s.add(sequence("a", 20))
    free = [s.plan(), s.kv.usage]
    again = [s.plan(), s.kv.usage]
    assert work(free[0]) == work(again[0])
    assert free[1] == again[1]


def test_after_a_fault_everything_is_computed_again_in_the_old_order():
    s = scheduler()
    a, b = sequence("a", 6), sequence("b", 3)
    s.add(a)
    s.add(b)
    commit(s.plan(), s)
    s.rewind(s.plan(), {})
    assert s.waiting == [a, b]
    assert s.kv.usage == 0
    assert work(s.plan()) == [("a", 0, 7), ("b", 0, 4)]
    assert a.num_preemptions == 0


@pytest.mark.parametrize("when", ["waiting", "mid prefill", "between steps", "twice"])
def test_finish_gives_back_pages_wherever_a_sequence_is(when):
    s = scheduler()
    r = sequence("a", 30)
    s.add(r)
    if when != "waiting":
        commit(s.plan(), s)
    if when == "between steps":
        commit(s.plan(), s)
    s.finish(r, Status.ABORTED)
    if when == "twice":
        s.finish(r, Status.STOPPED)
    assert r.status is Status.ABORTED
    assert s.idle
    assert s.kv.usage == 0


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"max_num_seqs": 0}, "max_num_seqs is 0"), ({"max_num_seqs": 17}, "at least max_num_seqs"), ({"max_model_len": True}, "integer")],
)
def test_limits_are_checked(limits, words):
    with pytest.raises(ArgumentError, match=words):
        scheduler(**limits)


JOBS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(0, 20)), min_size=1, max_size=8)


@settings(max_examples=150, deadline=None)
@given(JOBS, st.integers(12, 30), st.sampled_from([(FULL,), (WINDOW,), (FULL, WINDOW)]), st.integers(4, 20))
def test_every_sequence_ends_and_every_page_comes_back(jobs, pages, groups, budget):
    s = scheduler(pages=pages, groups=groups, max_num_batched_tokens=budget)
    sequences, late = [sequence(str(i), p, n) for i, (p, n, _) in enumerate(jobs)], [at for *_, at in jobs]
    steps = 0
    while not s.idle or any(at >= steps for at in late):
        for r, at in zip(sequences, late, strict=True):
            if at == steps:
                s.add(r)
        if not s.idle:
            plan = s.plan()
            assert plan.scheduled
            assert plan.num_tokens <= budget
            assert len(s.running) <= 4
            held = [p for r in s.running for p in s.kv.read(r, groups[0].group, 1) if p]
            assert len(held) == len(set(held))
            commit(plan, s)
        steps += 1
        assert steps < 3000
    assert [len(r.output_token_ids) for r in sequences] == [n for _, n, _ in jobs]
    assert s.kv.usage == 0


def test_tokens_that_are_scored_are_rationed():
    """A row of logits is as wide as the vocabulary: a step has so many of them at most."""
    s = scheduler(max_num_batched_tokens=200, max_num_seqs=4, max_model_len=200)
    for name in "ab":
        r = sequence(name, 60)
        r.submission.params = SamplingParams(prompt_logprobs=0, max_tokens=3)
        s.add(r)
    s.add(sequence("c", 60))
    plan = s.plan()
    assert work(plan) == [("a", 0, 60), ("b", 0, 4), ("c", 0, 60)]
    commit(plan, s)
    s.running[0].submission.prompt_logprobs += [{}] * 59
    s.running[1].submission.prompt_logprobs += [{}] * 4
    assert work(s.plan()) == [("a", 60, 1), ("c", 60, 1), ("b", 4, 56)]
