"""From logits to tokens: order, penalties, masks, logprobs, and draws that depend on nothing but their own seed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtcore.dispatch import Dispatcher
from vtcore.providers import reference
from vtcore.request import Request, Submission
from vtcore.sampler import describe, sample, spelling
from vtcore.sampling_params import SamplingParams
from vtcore.tensor import of


def request(params, seed=0, prompt=(1,), output=(), ends=frozenset(), bad_words=()):
    submission = Submission("r", list(prompt), params, 100, end_ids=ends, bad_words=bad_words)
    submission.requests = [Request(submission, 0, seed, output_token_ids=list(output))]
    return submission.requests[0]


def run(logits, *requests, decode=None):
    with Dispatcher([reference.provider]):
        return sample(of(np.array(logits, np.float32)), requests, decode)


def one(logits, params, **state):
    return run([logits], request(params, **state))[0].token_id


GREEDY = SamplingParams(temperature=0)


def test_greedy_takes_the_likeliest_and_of_equals_the_lowest():
    assert one([0, 3, 1, 3], GREEDY) == 1


def test_logprobs_name_the_chosen_token_first_then_the_likeliest_with_their_own_text():
    params = SamplingParams(temperature=0, logprobs=3)
    [sampled] = run([[0, 3, 1, 2]], request(params), decode="abcd".__getitem__)
    assert sampled.token_id == 1
    assert list(sampled.logprobs) == [1, 3, 2]
    assert [v.decoded_token for v in sampled.logprobs.values()] == ["b", "d", "c"]
    assert [v.rank for v in sampled.logprobs.values()] == [1, 2, 3]
    assert sampled.logprobs[1].logprob == pytest.approx(-0.4401897)


def told_of(row, token, count):
    with Dispatcher([reference.provider]):
        return describe(of(np.array([row], np.float32)), [token], [count], None)[0]


def test_a_chosen_token_outside_the_likeliest_is_told_too():
    assert {i: v.rank for i, v in told_of(np.log([0.1, 0.4, 0.3, 0.2]), 0, 1).items()} == {0: 4, 1: 1}
    assert list(told_of(np.zeros(3), 2, 0)) == [2]
    assert [v.rank for v in told_of(np.zeros(3), 2, -1).values()] == [3, 1, 2]


@given(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, -math.inf, math.nan]), min_size=1, max_size=12), st.integers(-1, 14))
def test_the_likeliest_are_those_of_a_stable_sort(values, count):
    row = np.array(values, np.float32)
    told = told_of(row, 0, count)
    order = np.argsort(-row, kind="stable")[: len(row) if count < 0 else count].tolist()
    assert list(told) == list(dict.fromkeys([0, *order]))
    assert [told[i].rank for i in order if i] == [rank for rank, i in enumerate(order, start=1) if i]


def test_each_row_tells_as_much_as_it_asked_for():
    asked = [1, None, -1, 0, 3]
    requests = [request(SamplingParams(temperature=0, logprobs=count)) for count in asked]
    sampled = run(np.tile([0.0, 2.0, 1.0, 3.0], (5, 1)), *requests)
    assert [None if s.logprobs is None else list(s.logprobs) for s in sampled] == [[3], None, [3, 1, 2, 0], [3], [3, 1, 2]]


def test_a_token_is_spelled_once():
    asked = []

    class Spells:
        def decode(self, ids, skip_special_tokens):
            asked.extend(ids)
            return "" if skip_special_tokens else f"<{ids[0]}>"

    decode = spelling(Spells())
    assert [decode(i) for i in (3, 1, 3)] == ["<3>", "<1>", "<3>"]
    assert asked == [3, 1]
    assert spelling(None) is None


def test_logprobs_are_those_of_the_model_whatever_is_masked():
    params = SamplingParams(temperature=0, logprobs=1, logit_bias={0: 100}, allowed_token_ids=[0, 2])
    [sampled] = run([[0, 3, 1, 2]], request(params))
    assert sampled.token_id == 0
    assert sampled.logprobs[0].logprob == pytest.approx(-3.4401897)
    assert sampled.logprobs[0].rank == 4


def test_repetition_penalty_divides_what_is_positive_and_multiplies_what_is_not():
    """Once for an id however often it occurred, in prompt or output."""
    logits, params = [2, -2, 0, -0.5, 1.4], SamplingParams(temperature=0, repetition_penalty=1.5)
    assert one(logits, params, prompt=[0, 0, 1], output=[2, 3]) == 4  # 2 / 1.5 < 1.4
    assert one(logits, params, prompt=[4], output=[4, 4]) == 0
    assert one([-2, -2.5, -3, -4], params, prompt=[0], output=[3]) == 1  # -3.0 < -2.5


def test_presence_counts_once_and_frequency_each_time_and_neither_the_prompt():
    assert one([1.0, 0.6], SamplingParams(temperature=0, presence_penalty=0.5), prompt=[0], output=[0, 0]) == 1
    assert one([1.0, 0.6], SamplingParams(temperature=0, presence_penalty=0.5), prompt=[0], output=[]) == 0
    assert one([1.0, 0.1], SamplingParams(temperature=0, frequency_penalty=0.5), prompt=[0], output=[0]) == 0
    assert one([1.0, 0.1], SamplingParams(temperature=0, frequency_penalty=0.5), prompt=[0], output=[0, 0]) == 1


def test_penalties_count_what_has_come_since_the_step_before():
    asked = request(SamplingParams(temperature=0, frequency_penalty=1.0), prompt=[0])
    for token in (0, 0, 1, 0):
        assert run([[2.5, 1.2, 0.0]], asked)[0].token_id == token
        asked.output_token_ids.append(token)


def test_a_bias_of_each_row_in_any_order():
    biases = [{3: 9.0, 1: 1.0}, None, {0: 4.0, 3: -1.0}]
    requests = [request(SamplingParams(temperature=0, logit_bias=b)) for b in biases]
    assert [s.token_id for s in run(np.tile([0.0, 1.0, 3.0, 3.5], (3, 1)), *requests)] == [3, 3, 0]


def test_before_min_tokens_nothing_ends_the_sequence():
    params = SamplingParams(temperature=0, min_tokens=2, stop_token_ids=[1])
    assert one([3, 2, 1], params, ends=frozenset({0}), output=[5]) == 2
    assert one([3, 2, 1], params, ends=frozenset({0}), output=[5, 5]) == 0


def test_a_bad_word_is_banned_where_it_would_be_complete():
    words = ((2,), (0, 1))
    assert one([0, 1, 9], GREEDY, bad_words=words) == 1
    assert one([0, 1, 9], GREEDY, bad_words=words, output=[0]) == 0
    assert one([0, 1, 9], GREEDY, bad_words=words, output=[0, 0]) == 0
    assert one([0, 1, 9], GREEDY, bad_words=words, prompt=[0], output=[]) == 1  # what the prompt says doesn't count


def test_where_only_bad_words_are_left_one_is_said():
    params = SamplingParams(temperature=0, allowed_token_ids=[1, 2])
    assert one([5, 1, 2], params, bad_words=((1,), (2,))) == 2


def test_bias_and_allowed_ids():
    assert one([0, 1, 2], SamplingParams(temperature=0, logit_bias={0: 2.5})) == 0
    assert one([0, 1, 2], SamplingParams(temperature=0, allowed_token_ids=[0, 1])) == 1


@pytest.mark.parametrize("top_k", [0, -1, 8, 1_000_000])
def test_top_k_of_nothing_or_everything_is_off(top_k):
    logits = np.linspace(0, 2, 8)
    drawn = [one(logits, SamplingParams(top_k=top_k), seed=s) for s in range(50)]
    assert drawn == [one(logits, SamplingParams(), seed=s) for s in range(50)]
    assert len(set(drawn)) > 3


def test_what_leaves_one_token_is_greedy():
    logits = np.linspace(0, 2, 8)
    for params in (SamplingParams(top_k=1), SamplingParams(top_p=1e-6), SamplingParams(min_p=1), SamplingParams(temperature=0.01)):
        assert {one(logits, params, seed=s) for s in range(30)} == {7}


def test_draws_follow_the_probabilities():
    logits = np.log([0.5, 0.3, 0.2])
    drawn = [one(logits, SamplingParams(), seed=7, output=[0] * step) for step in range(2000)]
    assert np.bincount(drawn, minlength=3) / 2000 == pytest.approx([0.5, 0.3, 0.2], abs=0.04)


ROWS = st.builds(
    dict,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    top_k=st.sampled_from([0, 1, 3, 100]),
    top_p=st.sampled_from([0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0.0, 0.1]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.7]),
    logit_bias=st.sampled_from([None, {2: 3.0}]),
    allowed_token_ids=st.sampled_from([None, (0, 1, 4)]),
    logprobs=st.sampled_from([None, 2]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, min_size=2, max_size=6), st.integers(0, 1 << 30))
def test_a_row_is_the_same_alone_and_with_any_neighbours(rows, seed):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, (len(rows), 9)).astype(np.float32)
    requests = [request(SamplingParams(**r), seed=seed + i, prompt=[1, 2], output=[3] * i) for i, r in enumerate(rows)]
    together = run(logits, *requests)
    alone = [run(logits[i : i + 1], r)[0] for i, r in enumerate(requests)]
    assert [(s.token_id, s.logprobs) for s in together] == [(s.token_id, s.logprobs) for s in alone]
