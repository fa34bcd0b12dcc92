import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.witness import ints, normal
from vtcore.ops import embedding, place
from vtcore.ops.inputs import blocks
from vtcore.quant.blocks import FORMATS


def test_rows_of_a_table():
    table = normal(0, 5, 3)
    got = embedding(table, ints([4, 0], [0, 2]))
    assert got.tolist() == [[table[4].tolist(), table[0].tolist()], [table[0].tolist(), table[2].tolist()]]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32, np.uint64])
def test_any_integers_name_rows(dtype):
    table = normal(0, 5, 3)
    np.testing.assert_array_equal(embedding(table, np.array([1, 4], dtype)), table[[1, 4]])


def test_a_result_is_not_a_view_of_the_table():
    table = normal(0, 5, 3)
    embedding(table, ints(1))[:] = 0
    assert table[1].all()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_rows_of_a_quantised_table(name):
    table = blocks(np.random.default_rng(0), 4, FORMATS[name].block, FORMATS[name])
    np.testing.assert_array_equal(embedding(table, ints(2, 0, 2)), table.dequantize()[[2, 0, 2]])


@given(st.lists(st.integers(-1, 4), max_size=8), st.booleans())
def test_place_row_after_row(rows, add):
    x, values = normal(0, 5, 3), normal(1, len(rows), 3)
    want = x.copy()
    for n, row in enumerate(rows):
        for h in range(3):
            if row != -1:
                want[row, h] = want[row, h] + values[n, h] if add else values[n, h]
    before = x.copy()
    np.testing.assert_array_equal(place(x, np.array(rows, np.int32), values, add=add), want)
    np.testing.assert_array_equal(x, before)
