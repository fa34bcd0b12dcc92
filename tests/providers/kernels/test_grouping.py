"""Rows sorted by their matrices' numbers on a device: every row once, in a tile of its matrix, whatever the numbers are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtcore.providers import find
from vtcore.providers.kernels.grouping import tiles
from vtcore.tensor import of


@pytest.fixture(scope="module")
def device():
    provider = find("opencl")
    yield provider.device
    provider.close()


def listed(device, ids, matrices, size):
    """(a matrix's number, its rows) of each tile that is used; all others stand behind."""
    numbers = of(np.array(ids, np.int32))
    numbers.storage.at(device)
    table = tiles(device, numbers, matrices, size).numpy()
    used = [(int(t[0]), [int(r) for r in t[1:] if r >= 0]) for t in table if t[0] >= 0]
    assert (table[len(used) :] == -1).all()
    return used


def check(device, ids, matrices, size):
    used, wanted = listed(device, ids, matrices, size), np.array(ids, np.uint32).clip(0, matrices - 1)
    assert sorted(r for _, rows in used for r in rows) == list(range(len(ids)))
    assert [e for e, _ in used] == sorted(e for e, _ in used)
    for e, rows in used:
        assert rows
        assert (wanted[rows] == e).all()
    for e in range(matrices):
        assert sum(n == e for n, _ in used) == -(-int((wanted == e).sum()) // size)


@given(st.data())
def test_every_row_stands_in_a_tile_of_its_matrix(device, data):
    matrices, size = data.draw(st.integers(1, 20)), data.draw(st.sampled_from((4, 8)))
    ids = data.draw(st.lists(st.integers(0, matrices - 1), min_size=1, max_size=60))
    check(device, ids, matrices, size)


def test_more_matrices_and_rows_than_work_items(device):
    rng = np.random.default_rng(0)
    check(device, (rng.random(1500) ** 4 * 300).astype(int).tolist(), 300, 8)


def test_numbers_beyond_the_last_matrix_mean_the_last_as_for_rows_by_themselves(device):
    assert listed(device, [7, -1, 0, 3], 4, 8) == [(0, [2]), (3, [0, 1, 3])]


def test_a_tile_may_be_full_and_a_matrix_without_rows(device):
    assert listed(device, [2] * 8 + [0], 4, 4) == [(0, [8]), (2, [0, 1, 2, 3]), (2, [4, 5, 6, 7])]
