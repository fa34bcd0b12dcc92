"""Angles whose base grows: as the definition has them for long requests too, and each row for itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.portable.instances import NAMES, portable, run
from vtcore import ops

LENGTHS = st.lists(st.integers(1, 2**20), min_size=1, max_size=4)


@given(LENGTHS, st.floats(100, 1e8), st.integers(1, 1 << 17), st.floats(1, 64), st.sampled_from([4, 6, 64, 128]), st.integers(0, 2**32 - 1))
def test_any_lengths(lengths, theta, longest, factor, turn, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, len(lengths))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    positions = np.concatenate([rng.integers(0, n, c) for n, c in zip(lengths, counts, strict=True)]).astype(np.int32)
    call = {"positions": positions, "starts": starts, "lengths": np.int32(lengths)}
    numbers = {"theta": theta, "longest": longest, "factor": factor, "turn": turn}
    got = run(portable(threads=1), ops.dynamic_angles, **call, **numbers)
    np.testing.assert_allclose(got, ops.dynamic_angles.reference(**call, **numbers), rtol=0, atol=2.5e-6)


@pytest.mark.parametrize("isa", NAMES)
def test_a_row_alone_and_rows_of_nobody(isa):
    numbers = {"theta": 1e4, "longest": 32, "factor": 2.0, "turn": 64}
    positions, starts = np.arange(300, dtype=np.int64), np.int64([2, 290])
    whole = run(portable(isa), ops.dynamic_angles, positions=positions, starts=starts, lengths=np.int64([40]), **numbers)
    assert not whole[:2].any()
    assert not whole[290:].any()
    one = {"positions": positions[100:101], "starts": np.int32([0, 1]), "lengths": np.int32([40])}
    np.testing.assert_array_equal(run(portable(isa, 1), ops.dynamic_angles, **one, **numbers), whole[100:101])
