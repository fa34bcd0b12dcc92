"""Compiled kernels on the values that compilers get wrong: whole numbers past 2**53, infinities and NaN."""

import numpy as np
import pytest

from vtcore import tensor
from vtcore.dispatch import Dispatcher
from vtcore.op import Op
from vtcore.ops import embedding, log_softmax, random_sample, softmax
from vtcore.providers import find

INF = np.inf
ROWS = np.array([[-INF, 0, 0, 1], [np.nan, 0, 0, 0], [-INF] * 4, [INF, 0, 0, 0], [0, -INF, np.nan, 3]], np.float32)


def compiled(op: Op, *arrays: np.ndarray) -> np.ndarray:
    provider = find("portable")
    try:
        with Dispatcher([provider], strict=True):
            return op(*map(tensor.of, arrays)).numpy()
    finally:
        provider.close()


@pytest.mark.parametrize("op", [softmax, log_softmax])
def test_infinities_and_nan_are_where_the_definition_has_them(op):
    got, want = compiled(op, ROWS), op(ROWS)
    for special in (np.isnan, np.isposinf, np.isneginf, lambda x: x == 0):
        np.testing.assert_array_equal(special(got), special(want))
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_seeds_keep_every_bit():
    seeds = np.array([2**53, 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63), -1, 0, 1], np.int64)
    steps = np.array([0, 0, 2**31 - 1, 2**31 - 1, 5, 5, 0, 0], np.int32)
    probs = np.full((len(seeds), 1 << 16), 2.0**-16, np.float32)
    got = compiled(random_sample, probs, seeds, steps)
    np.testing.assert_array_equal(got, random_sample(probs, seeds, steps))
    assert len(set(got.tolist())) == len(seeds)


def test_the_last_row_of_a_long_table_is_read():
    table = np.arange(1 << 16, dtype=np.float32).reshape(-1, 1)
    np.testing.assert_array_equal(compiled(embedding, table, np.array([65535, 0], np.int32)), [[65535], [0]])
