"""Compressed entries, indexers and hyper-connections against the same numbers by other ways."""

import numpy as np

from tests.ops.witness import ints, normal
from vtcore.ops import choose_entries, compress, compressed_attention, hyper_head, hyper_in, hyper_out, look_up, paged_attention, rms_norm
from vtcore.ops.inputs import paged


def pages(seed, *shape):
    """Pages 1 and 2, of which a request has both, behind an empty one."""
    return np.concatenate([np.zeros((1, *shape[1:]), np.float32), normal(seed, *shape)])


ONE = {"table": ints([1, 2]), "starts": ints(0, 1)}


def test_the_entries_with_the_best_scores_are_chosen_in_their_order():
    keys, q = pages(0, 2, 4, 8), normal(1, 1, 3, 8)
    weights = np.abs(normal(2, 1, 3))
    flat = keys[1:].reshape(8, 8)[:7]
    scores = sum(w * np.maximum(flat @ head, 0) for w, head in zip(weights[0], q[0], strict=True))
    chosen = choose_entries(q, weights, keys, **ONE, lengths=ints(7), k=3)
    assert chosen.tolist() == [np.argsort(-scores)[:3].tolist()]


def test_equal_entries_are_chosen_from_the_first_and_what_lacks_is_none():
    keys = np.zeros((3, 4, 8), np.float32)
    assert choose_entries(normal(1, 1, 2, 8), np.ones((1, 2), np.float32), keys, **ONE, lengths=ints(6), k=4, every=2).tolist() == [
        [0, 1, 2, -1]
    ]


def test_a_window_with_equal_gates_is_folded_into_its_mean():
    kv, weight = pages(3, 2, 4, 6), normal(4, 6)
    call = {"gate": np.ones_like(kv), "ape": np.zeros((4, 6), np.float32), "weight": weight, **ONE, "slots": ints(1), "lengths": ints(8)}
    entry = compress(kv, **call, eps=1e-6)
    np.testing.assert_allclose(entry, rms_norm(kv[2].mean(0, keepdims=True), weight, 1e-6), rtol=1e-5)


def test_overlapping_windows_take_the_first_half_of_the_one_before():
    kv, weight = pages(5, 2, 4, 6), np.ones(3, np.float32)
    call = {"gate": np.ones_like(kv), "ape": np.zeros((4, 6), np.float32), "weight": weight, **ONE, "slots": ints(1), "lengths": ints(8)}
    mean = np.concatenate([kv[1, :, :3], kv[2, :, 3:]]).mean(0, keepdims=True)
    np.testing.assert_allclose(compress(kv, **call, eps=0.0), rms_norm(mean, None, 0.0), rtol=1e-5)


def test_without_compressed_entries_it_is_attention_with_a_window():
    batch = paged(np.random.default_rng(6), (3,), (9,), (4, 1), (16, 1), 4)
    sinks, table = normal(7, 4), {n: batch[n] for n in ("table", "starts", "lengths")}
    near = paged_attention(**batch | {"v_pages": batch["k_pages"]}, window=5, sinks=sinks)
    far = compressed_attention(
        batch["q"],
        batch["k_pages"],
        batch["k_pages"],
        **table,
        entry_table=batch["table"],
        scale=batch["scale"],
        window=5,
        every=10,
        sinks=sinks,
    )
    np.testing.assert_array_equal(near, far)


def test_the_mixing_matrix_is_doubly_stochastic():
    streams, fn, base = normal(8, 5, 4, 16), normal(9, 24, 64) / 9, normal(10, 24)
    _, post, comb = hyper_in(streams, fn, base, normal(11, 3), 50, 0.0, 1e-6)
    np.testing.assert_allclose(comb.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(comb.sum(2), 1, rtol=1e-4)
    assert ((post > 0) & (post < 2)).all()


def test_streams_that_keep_to_themselves_and_take_a_block_s_output():
    streams, out = normal(12, 2, 3, 8), normal(13, 2, 8)
    alone = np.broadcast_to(np.eye(3, dtype=np.float32), (2, 3, 3)).copy()
    np.testing.assert_array_equal(hyper_out(streams, out, np.ones((2, 3), np.float32), alone), streams + out[:, None])


def test_without_products_the_streams_are_averaged():
    streams, nothing = normal(14, 2, 2, 8), np.zeros(2, np.float32)
    one = hyper_head(streams, np.zeros((2, 16), np.float32), nothing, np.ones(1, np.float32), 0.0, 1e-6)
    np.testing.assert_allclose(one, streams.mean(1), rtol=1e-6)


def test_rows_of_integers():
    assert look_up(ints([1, 2], [3, 4]), ints(1, 0, 1)).tolist() == [[3, 4], [1, 2], [3, 4]]
