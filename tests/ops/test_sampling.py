import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.ops.witness import ints, normal, within_one_ulp
from vtcore.ops import argmax, log_softmax, random_sample, softmax, top_k

INF = math.inf


def by_hand(row):
    top = max(row)
    weights = [math.exp(v - top) for v in row]
    return [w / math.fsum(weights) for w in weights]


@pytest.mark.parametrize("shape", [(3, 40), (2, 2, 5), (7,)])
def test_softmax_by_hand(shape):
    x = normal(0, *shape) * np.float32(9)
    want = np.reshape([by_hand(row) for row in x.reshape(-1, shape[-1]).tolist()], shape)
    within_one_ulp(softmax(x), want)
    within_one_ulp(log_softmax(x), np.log(want))


def test_log_probabilities_of_four():
    got = log_softmax(np.float32([0, 3, 1, 2]))
    assert got[1] == pytest.approx(-0.4401897, abs=1e-7)
    values, ids = top_k(got, 3)
    assert ids.tolist() == [1, 3, 2]
    np.testing.assert_allclose(values, [-0.4401897, -1.4401897, -2.4401897], rtol=1e-7)


def test_a_row_of_excluded_tokens_is_zero_and_spreads_nowhere():
    x = np.float32([[-INF, -INF, -INF], [0, 0, -INF]])
    assert softmax(x).tolist() == [[0, 0, 0], [0.5, 0.5, 0]]
    got = log_softmax(x)
    assert got[0].tolist() == [-INF] * 3
    np.testing.assert_allclose(got[1], [-math.log(2), -math.log(2), -INF], rtol=1e-7)


@pytest.mark.parametrize("bad", [math.nan, INF])
def test_nan_and_infinity_make_their_own_row_nan(bad):
    for op in (softmax, log_softmax):
        got = op(np.float32([[bad, 0], [1, 1]]))
        assert np.isnan(got[0]).any()
        assert np.isfinite(got[1]).all()
    assert np.isnan(softmax(np.float32([bad, 0]))).all()


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_empty_shapes_stay_empty(shape):
    assert softmax(np.zeros(shape, np.float32)).shape == shape
    assert log_softmax(np.zeros(shape, np.float32)).shape == shape


def test_huge_logits_do_not_overflow():
    np.testing.assert_allclose(softmax(np.float32([3e38, 3e38, -3e38])), [0.5, 0.5, 0])


@given(hnp.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 9)), elements=st.sampled_from([-INF, -1, -0.0, 0, 1, INF])))
def test_the_lowest_index_wins(x):
    want = [row.index(max(row)) for row in x.tolist()]
    assert argmax(x).tolist() == want
    values, ids = top_k(x, x.shape[1])
    assert ids.tolist() == [sorted(range(len(row)), key=lambda i, row=row: (-row[i], i)) for row in x.tolist()]
    np.testing.assert_array_equal(values, np.take_along_axis(x, ids, -1))


def test_argmax_of_nan_is_the_first_nan():
    assert argmax(np.float32([1, math.nan, 5, math.nan])).tolist() == 1


def test_argmax_and_top_k_give_int32_for_any_axes():
    got = argmax(normal(0, 2, 3, 4))
    assert (got.shape, got.dtype) == ((2, 3), np.int32)
    assert argmax(normal(0, 4)).shape == ()
    values, ids = top_k(normal(0, 2, 3, 4), k=2)
    assert (values.shape, ids.shape, ids.dtype) == ((2, 3, 2), (2, 3, 2), np.int32)


MASK = 2**64 - 1


def mix(z):
    """SplitMix64 with Python's integers."""
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def race(row, seed, step):
    start = mix((mix(seed & MASK) + step) & MASK)
    times = [-math.log((mix((start + i) & MASK) >> 12) / 2**52 + 2.0**-53) for i in range(len(row))]
    scores = [float(p) / t for p, t in zip(row, times, strict=True)]
    return scores.index(max(scores))


def test_the_witness_is_splitmix():
    assert mix(1234567) == 6457827717110365317
    assert mix(1234567 + 0x9E3779B97F4A7C15) == 3203168211198807973


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1))
def test_a_draw_by_hand(seed, step, noise):
    row = softmax(normal(noise, 1, 30) * np.float32(2))
    assert random_sample(row, np.array([seed]), ints(step)).tolist() == [race(row[0], seed, step)]


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_a_row_never_depends_on_its_neighbours(rows, noise):
    rng = np.random.default_rng(noise)
    probs, seeds, steps = softmax(normal(noise, rows, 12)), rng.integers(0, 5, rows), rng.integers(0, 9, rows)
    whole = random_sample(probs, seeds, steps)
    for i in range(rows):
        assert random_sample(probs[i:], seeds[i:], steps[i:])[0] == whole[i]


def test_frequencies_are_the_probabilities():
    n, probs = 20000, np.float32([0.5, 0.25, 0.2, 0.05, 0])
    for seeds, steps in ((np.arange(n), np.zeros(n, np.int32)), (np.zeros(n, np.int64), np.arange(n, dtype=np.int32))):
        drawn = random_sample(np.tile(probs, (n, 1)), seeds, steps)
        counts = np.bincount(drawn, minlength=5)
        assert counts[4] == 0
        assert (np.abs(counts - n * probs) < 4 * np.sqrt(n * probs * (1 - probs)) + 1e-9).all()


def test_steps_and_seeds_make_other_draws():
    probs = np.full((50, 1000), 1e-3, np.float32)
    by_step = random_sample(probs, np.full(50, 42), np.arange(50, dtype=np.int32))
    by_seed = random_sample(probs, np.arange(50), np.full(50, 7, np.int32))
    assert len(set(by_step.tolist())) > 45
    assert len(set(by_seed.tolist())) > 45
    assert (random_sample(probs, np.full(50, 42), np.full(50, 7, np.int32)) == by_step[7]).all()
