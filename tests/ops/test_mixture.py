"""Experts and routing against witnesses that are written another way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtcore import ops
from vtcore.errors import OpError


def plain(x, weights, ids, gate, up, down):
    """Every expert for every token, then those that count."""
    hidden = np.einsum("tk,enk->etn", x.astype(np.float64), gate.astype(np.float64))
    hidden = hidden / (1 + np.exp(-hidden)) * np.einsum("tk,enk->etn", x.astype(np.float64), up.astype(np.float64))
    each = np.einsum("etn,emn->etm", hidden, down.astype(np.float64))
    return sum(weights[:, j, None] * each[ids[:, j], np.arange(len(x))] for j in range(ids.shape[1]))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 6), st.integers(0, 99))
def test_experts_are_what_all_experts_would_say(tokens, k, count, seed):
    rng = np.random.default_rng(seed)
    gate, up, down = (rng.standard_normal(s).astype(np.float32) for s in ((count, 7, 5), (count, 7, 5), (count, 6, 7)))
    x, weights = rng.standard_normal((tokens, 5)).astype(np.float32), rng.uniform(0, 1, (tokens, k)).astype(np.float32)
    ids = rng.integers(0, count, (tokens, k)).astype(np.int32)
    want = plain(x, weights, ids, gate, up, down)
    np.testing.assert_allclose(ops.experts(x, weights, ids, gate, up, down), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(
        ops.experts(x, weights, ids, list(gate), list(up), list(down)), ops.experts(x, weights, ids, gate, up, down)
    )


def test_a_weighed_input_is_another_function():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((3, 4)).astype(np.float32), np.full((3, 1), 0.5, np.float32)
    mats = [rng.standard_normal(s).astype(np.float32) for s in ((2, 6, 4), (2, 6, 4), (2, 4, 6))]
    ids = np.zeros((3, 1), np.int32)
    np.testing.assert_allclose(
        ops.experts(x, w, ids, *mats, weigh_input=True), ops.experts(x * w, np.ones_like(w), ids, *mats), rtol=1e-6, atol=1e-6
    )


def test_softmax_over_the_chosen_is_softmax_over_all_renormalised():
    logits = np.random.default_rng(1).standard_normal((5, 16)).astype(np.float32)
    weights, ids = ops.route(logits, 4)
    picked = np.take_along_axis(logits, ids.astype(int), -1).astype(np.float64)
    want = np.exp(picked) / np.exp(picked).sum(-1, keepdims=True)
    np.testing.assert_allclose(weights, want, rtol=1e-6)
    assert (np.diff(weights) <= 0).all()


def test_a_bias_chooses_and_does_not_weigh():
    logits, bias = np.array([[2, 1, 0, -1]], np.float32), np.array([0, 0, 0, 9], np.float32)
    weights, ids = ops.route(logits, 2, "sigmoid", bias, renormalise=False)
    assert ids.tolist() == [[3, 0]]
    np.testing.assert_allclose(weights, 1 / (1 + np.exp([[1.0, -2.0]])), rtol=1e-6)


def test_groups_go_by_their_best_or_with_a_bias_by_their_best_two():
    logits = np.array([[9, 0, 5, 5, 1, 1]], np.float32)
    assert ops.route(logits, 2, groups=3, keep=1)[1].tolist() == [[0, 1]]
    assert ops.route(logits, 2, "sqrtsoftplus", np.zeros(6, np.float32), groups=3, keep=1)[1].tolist() == [[2, 3]]


def test_ties_go_to_the_lower_number():
    assert ops.route(np.zeros((1, 8), np.float32), 3)[1].tolist() == [[0, 1, 2]]
    assert ops.route_sparse(np.zeros((1, 8), np.float32), 0.01)[1].tolist() == [[0, 1]]


def test_sparse_routing_weighs_among_those_that_come_near():
    weights, ids = ops.route_sparse(np.array([[4.0, 3.99, 1.0]], np.float32), 0.01)
    assert ids.tolist() == [[0, 1]]
    np.testing.assert_allclose(weights, [[1 / (1 + np.exp(-0.01)), 1.0]], rtol=1e-5)


def test_no_experts_are_refused():
    with pytest.raises(OpError, match="at least one"):
        ops.experts(
            np.ones((1, 2), np.float32), np.ones((1, 1), np.float32), np.zeros((1, 1), np.int32), None, [], [], act="relu2"
        )  # fmt: skip
