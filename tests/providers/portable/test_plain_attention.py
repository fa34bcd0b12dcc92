"""Attention of an encoder by a plain kernel: runs that know nothing of each other."""

import numpy as np

from tests.providers.portable.instances import portable, run
from tests.providers.portable.test_bounds import at_the_edge
from tests.providers.portable.test_plain import one_thread, sampled
from vtcore import ops


def encoder(rng, tokens=150, starts=(0, 64, 64, 149)):
    q, k, v = (rng.standard_normal((tokens, 3, 40)).astype(np.float32) for _ in range(3))
    return {"q": q, "k": k, "v": v, "starts": np.array(starts, np.int32), "scale": 0.16}


def test_attention_is_the_same_on_any_number_of_threads_and_for_a_run_alone():
    call = encoder(np.random.default_rng(1))
    whole = run(one_thread(), ops.attention, **call)
    np.testing.assert_allclose(whole, ops.attention.reference(**call), atol=1e-5)
    np.testing.assert_array_equal(run(portable(threads=3), ops.attention, **call), whole)
    alone = {n: call[n][64:149] for n in "qkv"} | {"starts": np.array([0, 85], np.int32), "scale": 0.16}
    np.testing.assert_array_equal(run(one_thread(), ops.attention, **alone), whole[64:149])


def test_what_is_not_finite_stays_in_its_run():
    call = encoder(np.random.default_rng(2))
    call["k"][3, 1, 5], call["v"][70, 0, 2] = np.nan, np.inf
    got, want = run(one_thread(), ops.attention, **call), ops.attention.reference(**call)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


def test_borders_outside_are_moved_inside():
    call = encoder(np.random.default_rng(1), starts=(-5, 64, 1000))
    inside = run(one_thread(), ops.attention, **(call | {"starts": np.array([0, 64, 150], np.int32)}))
    np.testing.assert_array_equal(run(one_thread(), ops.attention, **call), inside)
    x, values = np.zeros((2, 3), np.float32), np.ones((3, 3), np.float32)
    assert run(one_thread(), ops.place, x=x, rows=np.array([-(10**8), 10**8, 1], np.int32), values=values).sum() == 3


def test_nothing_is_read_behind_the_arguments():
    rng = np.random.default_rng(0)
    calls = sampled(rng, 3, 37) | {
        "top_k": {"x": rng.standard_normal((3, 37)).astype(np.float32), "k": 5},
        "attention": encoder(rng, 37, (0, 20, 37)),
        "place": {"x": np.ones((3, 7), np.float32), "rows": np.array([2, 0], np.int32), "values": np.ones((2, 7), np.float32)},
        "apply_logit_bias": {"logits": np.ones((2, 9), np.float32), "rows": np.array([1]), "ids": np.array([8]), "values": np.float32([2])},
    }
    for name, call in calls.items():
        run(one_thread(), getattr(ops, name), **{n: at_the_edge(v) if isinstance(v, np.ndarray) else v for n, v in call.items()})
