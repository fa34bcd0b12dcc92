import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.witness import ints, normal, within_one_ulp
from vtcore.ops import apply_logit_bias, apply_min_p, apply_penalties, apply_temperature, apply_token_mask, apply_top_k_top_p, softmax

INF = math.inf


def penalise(logits, prompt=(), counts=None, repetition=1.0, frequency=0.0, presence=0.0):
    x = np.array([logits], np.float32)
    seen = np.isin(np.arange(x.shape[1]), prompt)[None]
    used = np.array([counts or [0] * x.shape[1]], np.int32)
    one = (np.array([p], np.float32) for p in (repetition, frequency, presence))
    return apply_penalties(x, seen, used, *one)[0].tolist()


def test_a_repetition_penalty_never_rewards():
    within_one_ulp(np.float32(penalise([2, -2, 0, -0.5], prompt=range(4), repetition=1.5)), [4 / 3, -3, 0, -0.75])


def test_a_repetition_penalty_counts_once_for_prompt_and_output():
    assert penalise([2, 2, 2], prompt=[0, 1], counts=[0, 9, 3], repetition=2.0) == [1, 1, 1]


def test_frequency_and_presence_count_the_output_alone():
    assert penalise([1, 1, 1], prompt=[0], counts=[0, 3, 1], frequency=0.5, presence=0.25) == [1, -0.75, 0.25]


@given(hnp.arrays(np.float32, (2, 9), elements=st.floats(width=32, allow_nan=False)))
def test_neutral_penalties_change_no_bit(logits):
    seen, counts, none = np.ones((2, 9), bool), np.full((2, 9), 4, np.int32), np.zeros(2, np.float32)
    assert apply_penalties(logits, seen, counts, np.ones(2, np.float32), none, none).tobytes() == logits.tobytes()


def test_excluded_tokens_stay_excluded():
    assert penalise([-INF, -INF], prompt=[0], counts=[0, 2], repetition=1.5, frequency=-2, presence=-2) == [-INF, -INF]


def test_a_bias_adds_up():
    got = apply_logit_bias(np.zeros((2, 4), np.float32), ints(1, 0, 1), ints(3, 0, 3), np.float32([1.5, -INF, 2]))
    assert got.tolist() == [[-INF, 0, 0, 0], [0, 0, 0, 3.5]]


def test_true_excludes():
    assert apply_token_mask(np.float32([[1, 2, 3]]), np.array([[True, False, True]])).tolist() == [[-INF, 2, -INF]]


def test_temperature_divides_and_greedy_rows_stay():
    x = np.tile(np.float32([3, -6, -INF]), (4, 1))
    got = apply_temperature(x, np.float32([0.5, 0.0, 9e-6, 3.0]))
    assert got.tolist() == [[6, -12, -INF], [3, -6, -INF], [3, -6, -INF], [1, -2, -INF]]


def kept(logits, k=0, p=1.0):
    got = apply_top_k_top_p(np.array([logits], np.float32), ints(k), np.float32([p]))[0]
    left = np.flatnonzero(got > -INF)
    np.testing.assert_array_equal(got[left], np.float32(logits)[left])
    return left.tolist()


EIGHT = [0.1, 2, -1, 5, 3, 0, -3, 1]


@pytest.mark.parametrize(("k", "want"), [(0, 8), (-1, 8), (8, 8), (1_000_000, 8), (1, 1), (3, 3), (7, 7)])
def test_top_k_off_and_on(k, want):
    best = sorted(sorted(range(8), key=lambda i: -EIGHT[i])[:want])
    assert kept(EIGHT, k) == best


def test_top_k_of_a_larger_vocabulary():
    logits = normal(3, 200).tolist()
    assert kept(logits, k=57) == sorted(sorted(range(200), key=lambda i: -logits[i])[:57])


def test_ties_at_the_kth_are_kept():
    assert kept([1, 3, 2, 2, 2, 0], k=2) == [1, 2, 3, 4]


def probabilities(logits):
    weights = [math.exp(v - max(logits)) for v in logits]
    return [w / math.fsum(weights) for w in weights]


@given(st.lists(st.integers(-8, 8), min_size=1, max_size=12), st.sampled_from([0.0, 0.05, 0.31, 0.5, 0.77, 0.951, 0.9993]))
def test_top_p_keeps_the_smallest_set_that_reaches_p(logits, p):
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    shares, want, total = probabilities(logits), [], 0.0
    for i in order:
        if want and total >= p:
            break
        want.append(i)
        total += shares[i]
    assert kept(logits, p=p) == sorted(want)


def test_top_p_of_one_or_more_is_off():
    assert kept([0, -80, -100, -INF], p=1.0) == [0, 1, 2]
    assert kept([0, -80, -100], p=1.5) == [0, 1, 2]


def test_equal_tokens_are_kept_by_index():
    assert kept([0, 0, 0, 0], p=0.5) == [0, 1]
    assert kept([0, 0, 0, 0], p=0.6) == [0, 1, 2]


def test_top_p_counts_what_top_k_left():
    assert kept([4, 4, 4, 4.5], k=2, p=0.3) == [3]
    assert kept(np.log([0.4, 0.3, 0.2, 0.1]), k=2, p=0.56) == [0]  # 0.4 of 0.7 is 0.571
    assert kept(np.log([0.4, 0.3, 0.2, 0.1]), p=0.56) == [0, 1]


def test_min_p_by_hand():
    logits = np.log(np.float32([[0.5, 0.3, 0.15, 0.05]]))
    assert np.isfinite(apply_min_p(logits, np.float32([0.29])))[0].tolist() == [True, True, True, False]
    assert np.isfinite(apply_min_p(logits, np.float32([0.31])))[0].tolist() == [True, True, False, False]
    np.testing.assert_array_equal(apply_min_p(logits, np.float32([0])), logits)


@given(st.floats(0, 1, width=32), st.integers(0, 2**32 - 1))
def test_the_best_token_is_always_kept(p, seed):
    x = normal(seed, 1, 20)
    for got in (
        apply_min_p(x, np.float32([p])),
        apply_top_k_top_p(x, ints(1), np.float32([p])),
        apply_top_k_top_p(x, ints(0), np.float32([p])),
    ):
        assert got.argmax() == x.argmax()
        assert softmax(got).sum() == pytest.approx(1)


def test_rows_have_parameters_of_their_own():
    x = np.tile(np.float32([EIGHT]), (3, 1))
    got = apply_top_k_top_p(x, ints(1, 0, 3), np.float32([1, 1, 1]))
    assert np.isfinite(got).sum(-1).tolist() == [1, 8, 3]
