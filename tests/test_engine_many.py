"""Many requests in one engine: seeds, faults and aborts of some, and the others as if alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny import Bytes, Script, drain, engine
from vtcore.errors import NotANumberError
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)

SEEDED = SamplingParams(temperature=0.8, seed=42, max_tokens=12)


def sampled(*params):
    e = engine(Script(), tokenizer=Bytes())
    submissions = [e.submit([5], p) for p in params]
    drain(e)
    return [[o.token_ids for o in s.output().outputs] for s in submissions]


def test_a_seed_gives_the_same_text_alone_and_beside_unseeded_neighbours():
    alone = sampled(SEEDED)[0]
    for _ in range(5):
        assert sampled(SamplingParams(max_tokens=20), SEEDED, SamplingParams(temperature=0))[1] == alone


def test_without_a_seed_texts_differ():
    texts = [str(sampled(SamplingParams(max_tokens=12))) for _ in range(5)]
    assert len(set(texts)) > 1


def test_the_sequences_of_one_request_differ_and_come_again_in_the_same_order():
    four = SamplingParams(temperature=0.8, seed=42, max_tokens=12, n=4)
    first, second = sampled(four)[0], sampled(four)[0]
    assert first == second
    assert len({str(s) for s in first}) > 1
    assert first[0] == sampled(SEEDED)[0][0]
    assert first[2] == sampled(SamplingParams(temperature=0.8, seed=44, max_tokens=12))[0][0]


def test_a_step_that_raises_costs_nothing_but_itself():
    model = Script(b"abcdef")
    e = engine(model, tokenizer=Bytes())
    submission = e.submit([1], SamplingParams(temperature=0, max_tokens=6))
    e.step()
    e.step()

    def fail(batch):
        raise RuntimeError("device lost")

    model.before = fail
    for _ in range(3):
        with pytest.raises(RuntimeError, match="device lost"):
            e.step()
    model.before = lambda batch: None
    drain(e)
    assert submission.output().outputs[0].text == "abcdef"
    assert e.scheduler.kv.usage == 0


def test_a_request_whose_text_fails_is_alone_in_it():
    e = engine(Script(b"abcdef"), tokenizer=Bytes())
    bad, good = (e.submit([1], SamplingParams(temperature=0, max_tokens=6)) for _ in range(2))

    class Broken:
        def push(self, i):
            raise ValueError("no such token")

    bad.requests[0].detokenizer = Broken()
    drain(e)
    with pytest.raises(ValueError, match="no such token"):
        bad.output()
    assert bad.requests[0].finished
    assert good.output().outputs[0].text == "abcdef"
    assert e.scheduler.kv.usage == 0


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_an_abort_frees_at_once_and_twice_is_once(steps):
    e = engine(Script(b"x" * 90), max_num_batched_tokens=8, tokenizer=Bytes())
    submission = e.submit([1] * 20, SamplingParams(temperature=0, max_tokens=60, n=1))
    for _ in range(steps):
        e.step()
    e.abort(submission.request_id)
    e.abort(submission.request_id)
    e.abort("never seen")
    assert e.idle
    assert e.scheduler.kv.usage == 0
    assert submission.output().outputs[0].finish_reason == "abort"
    assert e.step() == []


def test_a_hundred_aborts_leave_the_pool_as_at_the_start():
    e = engine(Script(b"x" * 90), max_num_batched_tokens=8)
    free = {name: p.num_free for name, p in e.scheduler.kv.pools.items()}
    for i in range(100):
        submission = e.submit([1] * (1 + i % 30), SamplingParams(max_tokens=None, n=1 + i % 3))
        for _ in range(i % 4):
            e.step()
        if i % 5:
            e.abort(submission.request_id)
    for name in list(e._running):
        e.abort(name)
    assert {name: p.num_free for name, p in e.scheduler.kv.pools.items()} == free
    assert e.idle


def test_timings_are_told():
    e = engine(Script())
    submission = e.submit([1], SamplingParams(max_tokens=4, seed=1))
    assert submission.output().metrics.first_token is None
    assert not submission.output().finished
    drain(e)
    times = submission.output().metrics
    assert 0 <= times.first_scheduled <= times.first_token <= times.finished
    assert times.tokens_per_second > 0
    assert submission.output().json()["timings"]["finished"] == times.finished


JOBS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 15), st.sampled_from([0.0, 1.0]), st.integers(0, 12)), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(JOBS, st.integers(12, 30), st.integers(8, 30), st.booleans())
def test_outputs_are_those_of_running_alone(jobs, pages, budget, penalised):
    """Whatever the pool preempts, however prompts are cut, and whoever else is there."""
    script = list(np.random.default_rng(0).integers(0, 257, 200))

    def params(i, wanted, temperature):
        return SamplingParams(
            temperature=temperature,
            seed=i,
            max_tokens=wanted,
            logprobs=1,
            prompt_logprobs=0,
            presence_penalty=0.5 * penalised,
            ignore_eos=True,
        )

    def alone(i, n, wanted, temperature):
        e = engine(Script(script, strength=3), tokenizer=Bytes())
        submission = e.submit([i] * n, params(i, wanted, temperature))
        drain(e)
        return submission.output()

    e = engine(Script(script, strength=3), pages=pages, max_num_batched_tokens=budget, tokenizer=Bytes())
    submissions, step = {}, 0
    while len(submissions) < len(jobs) or not e.idle:
        for i, (n, wanted, temperature, at) in enumerate(jobs):
            if at == step:
                submissions[i] = e.submit([i] * n, params(i, wanted, temperature))
        e.step()
        step += 1
    for i, (n, wanted, temperature, _) in enumerate(jobs):
        got, want = submissions[i].output(), alone(i, n, wanted, temperature)
        assert (got.outputs, got.prompt_logprobs, got.prompt_token_ids) == (want.outputs, want.prompt_logprobs, want.prompt_token_ids)
    assert e.scheduler.kv.usage == 0


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(max_tokens=20, seed=1)])
def test_logits_that_are_not_numbers_end_their_own_request_alone(params):
    model = Script(b" hello")
    model.table.numpy()[9, 5] = np.nan
    e = engine(model, tokenizer=Bytes())
    good = e.submit(list(b"ab"), SamplingParams(temperature=0, max_tokens=5))
    bad = e.submit(list(b"0123456789"), params)
    drain(e)
    with pytest.raises(NotANumberError, match=rf"request '{bad.request_id}' after 10 tokens are not numbers"):
        bad.output()
    assert good.output().outputs[0].text == "hello"
    assert bad.requests[0].output_token_ids == []
