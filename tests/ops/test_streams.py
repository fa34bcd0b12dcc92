import math
import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.witness import normal, within_one_ulp
from vtcore.ops import match_level, mix_streams, over_bar


def test_each_token_mixes_its_streams_by_its_own_weights():
    streams = np.array([[[1, 2], [10, 20]], [[3, 4], [5, 6]]], np.float32)
    weights = np.array([[[1, 1]], [[2, -1]]], np.float32)
    assert mix_streams(streams, weights).tolist() == [[[11, 22]], [[1, 2]]]


@given(st.integers(0, 2**32 - 1))
def test_mixtures_by_plain_sums(seed):
    x, w = normal(seed, 2, 3, 5), normal(seed + 1, 2, 4, 3)
    want = [[[math.fsum(float(w[t, m, s]) * float(x[t, s, h]) for s in range(3)) for h in range(5)] for m in range(4)] for t in range(2)]
    within_one_ulp(mix_streams(x, w), want)


def test_a_stream_takes_the_level_of_another_row():
    out = match_level(np.array([[[3, 4], [0, 0]]], np.float32), np.array([[30, 40]], np.float32), 1e-5)
    np.testing.assert_allclose(out, [[[30, 40], [0, 0]]], rtol=1e-6)


def test_a_stream_of_nearly_nothing_is_held_against_the_floor():
    out = match_level(np.full((1, 1, 4), 1e-3, np.float32), np.ones((1, 4), np.float32), 1e-4)
    np.testing.assert_allclose(out, np.full((1, 1, 4), 0.1), rtol=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(-2, 2))
def test_the_bar_is_the_row_s_own(seed, deviations):
    x = normal(seed, 2, 33)
    rows = [[float(v) for v in row] for row in x]
    bars = [statistics.fmean(row) + deviations * statistics.pstdev(row) for row in rows]
    want = [[max(v - bar, 0) for v in row] for row, bar in zip(rows, bars, strict=True)]
    np.testing.assert_allclose(over_bar(x, deviations), want, rtol=1e-6, atol=1e-12)


def test_of_many_values_the_wanted_part_passes():
    share = (over_bar(normal(0, 1, 100_000), statistics.NormalDist().inv_cdf(0.95)) > 0).mean()
    assert abs(share - 0.05) < 0.003
