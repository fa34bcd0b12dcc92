import cmath
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.witness import ints, normal, within_one_ulp
from vtcore.ops import dynamic_angles, position_growth, rope_angles, rotate

FREQUENCIES = np.float32([1, 0.5, 0.01, 3e-4])


def test_angles_by_hand():
    got = rope_angles(ints(0, 1, 7, 4095), FREQUENCIES, scale=1.25)
    for t, position in enumerate((0, 1, 7, 4095)):
        angles = [float(np.float32(np.float32(position) * f)) for f in FREQUENCIES]
        within_one_ulp(got[t], [[1.25 * math.cos(a) for a in angles], [1.25 * math.sin(a) for a in angles]])


def test_position_zero_turns_nothing():
    assert rope_angles(ints(0), FREQUENCIES).tolist() == [[[1] * 4, [0] * 4]]


def test_each_frequency_follows_its_axis():
    positions = ints([1, 2], [30, 40], [500, 600])
    got = rope_angles(positions, FREQUENCIES, axes=ints(2, 0, 1, 0))
    for f, axis in enumerate((2, 0, 1, 0)):
        np.testing.assert_array_equal(got[:, :, f], rope_angles(positions[axis], FREQUENCIES)[:, :, f])


def test_without_axes_the_first_row_counts():
    np.testing.assert_array_equal(rope_angles(ints([1, 2], [8, 9]), FREQUENCIES), rope_angles(ints(1, 2), FREQUENCIES))


def test_a_window_has_the_position_of_its_first_token():
    np.testing.assert_array_equal(
        rope_angles(np.arange(9), FREQUENCIES, every=4), rope_angles(ints(0, 0, 0, 0, 4, 4, 4, 4, 8), FREQUENCIES)
    )


def test_the_product_is_a_float32():
    """At such a position a float64 product would give another angle."""
    position, f = 1_000_003, np.float32(0.1)
    angle = float(np.float32(position) * f)
    assert angle != position * float(f)
    within_one_ulp(rope_angles(ints(position), np.array([f]))[0, :, 0], [math.cos(angle), math.sin(angle)])


def frequencies(base, turn):
    return np.array([base ** (-2 * i / turn) for i in range(turn // 2)], np.float32)


@pytest.mark.parametrize("length", [1, 512, 2047, 2048])
def test_dynamic_angles_are_plain_up_to_the_trained_length(length):
    """A served length below it would make the inner term negative."""
    got = dynamic_angles(ints(length - 1), ints(0, 1), ints(length), theta=1e4, longest=2048, factor=2.0, turn=16)
    np.testing.assert_array_equal(got, rope_angles(ints(length - 1), frequencies(1e4, 16)))


def test_dynamic_angles_grow_with_the_request_s_length():
    got = dynamic_angles(ints(5, 9, 9, 7), ints(0, 1, 3), ints(16, 40), theta=1e4, longest=16, factor=4.0, turn=8)
    np.testing.assert_array_equal(got[:1], rope_angles(ints(5), frequencies(1e4, 8)))
    base = 1e4 * (4.0 * 40 / 16 - 3) ** (8 / 6)
    np.testing.assert_array_equal(got[1:3], rope_angles(ints(9, 9), frequencies(base, 8)))
    assert not got[3].any()


def test_a_token_beyond_the_length_goes_by_its_own_position():
    """A prompt of 20 tokens in any chunks: 20 counts; then each generated token counts itself."""
    options = {"theta": 1e4, "longest": 16, "factor": 4.0, "turn": 8}
    got = dynamic_angles(ints(3, 19, 20, 29), ints(0, 4), ints(20), **options)
    for t, (position, length) in enumerate(((3, 20), (19, 20), (20, 21), (29, 30))):
        base = 1e4 * (4.0 * length / 16 - 3) ** (8 / 6)
        np.testing.assert_array_equal(got[t : t + 1], rope_angles(ints(position), frequencies(base, 8)))


def as_pairs(head, interleaved, half):
    pairs = [(2 * i, 2 * i + 1) if interleaved else (i, i + half) for i in range(half)]
    return pairs, [complex(head[a], head[b]) for a, b in pairs]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("half", [0, 1, 3, 5])
def test_rotation_is_a_product_of_complex_numbers(interleaved, inverse, half):
    x, turns = normal(0, 4, 2, 10), np.random.default_rng(1).uniform(-3, 3, (4, half))
    angles = np.stack([np.cos(turns), np.sin(turns)], 1).astype(np.float32)
    got = rotate(x, angles, interleaved=interleaved, inverse=inverse)
    np.testing.assert_array_equal(got[..., 2 * half :], x[..., 2 * half :])
    for t in range(4):
        for h in range(2):
            pairs, numbers = as_pairs(x[t, h], interleaved, half)
            for (a, b), z, turn in zip(pairs, numbers, turns[t], strict=True):
                want = z * cmath.exp(1j * (-turn if inverse else turn))
                np.testing.assert_allclose([got[t, h, a], got[t, h, b]], [want.real, want.imag], atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_turning_back_gives_the_same_lengths_and_values(seed, interleaved):
    x = normal(seed, 3, 2, 8)
    angles = rope_angles(ints(1, 50, 999), FREQUENCIES)
    there = rotate(x, angles, interleaved=interleaved)
    np.testing.assert_allclose(np.linalg.norm(there, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-6)
    np.testing.assert_allclose(rotate(there, angles, interleaved=interleaved, inverse=True), x, atol=2e-6)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500), st.booleans())
def test_scores_depend_on_the_distance_alone(m, n, shift, interleaved):
    q, k = normal(0, 1, 1, 8), normal(1, 1, 1, 8)

    def score(a, b):
        turned = (rotate(x, rope_angles(ints(p), FREQUENCIES), interleaved=interleaved) for x, p in ((q, a), (k, b)))
        return float(np.vdot(*(t.astype(np.float64) for t in turned)))

    assert abs(score(m, n) - score(m + shift, n + shift)) < 1e-3


def test_the_two_pairings_are_one_rotation_of_other_channels():
    x, angles = normal(0, 3, 2, 8), rope_angles(ints(1, 2, 3), FREQUENCIES)
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    np.testing.assert_array_equal(rotate(x, angles)[..., order], rotate(x[..., order], angles, interleaved=True))


def test_sixteen_bits_are_widened_first():
    x = normal(0, 2, 1, 8).astype(ml_dtypes.bfloat16)
    angles = rope_angles(ints(3, 4), FREQUENCIES)
    np.testing.assert_array_equal(rotate(x, angles), rotate(x.astype(np.float32), angles))


def test_growth_by_hand():
    got = position_growth(ints(0, 15, 16, 31, 32, 1 << 20), 16, 0.1)
    within_one_ulp(got, [1 + 0.1 * math.log(1 + n) for n in (0, 0, 1, 1, 2, 1 << 16)])
    within_one_ulp(position_growth(ints(14, 15), 16, 0.25, shift=1), [1, 1 + 0.25 * math.log(2)])
