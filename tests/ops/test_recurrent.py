"""Ops with a state: against sums written out, and the same bits however a sequence is cut, kept and taken up again."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ops.witness import normal
from vtcore import tensor
from vtcore.dispatch import Dispatcher
from vtcore.op import REGISTRY
from vtcore.ops import causal_conv, channel_scan, gated_delta, selective_scan, sigmoid, silu, time_step
from vtcore.ops.inputs import ints
from vtcore.providers import find

SEQUENCE = {  # of one request of T tokens: arrays by token, arrays that stay, the state's shape
    "causal_conv": ({"x": (6,)}, {"weight": (4, 6), "bias": (6,)}, (3, 6)),
    "gated_delta": ({"q": (2, 5), "k": (2, 5), "v": (4, 3), "decay": (4, 5), "beta": (4,)}, {}, (4, 5, 3)),
    "selective_scan": ({"x": (4, 3), "dt": (4,), "b": (2, 5), "c": (2, 5)}, {"a": (4,), "d": (4,)}, (4, 5, 3)),
    "channel_scan": ({"x": (6,), "dt": (6,), "b": (4,), "c": (4,)}, {"rate": (4, 6), "d": (6,)}, (4, 6)),
}
NEGATIVE, SHORT = ("decay", "a", "rate"), 0.4


def drawn(name, tokens, seed):
    """Arguments by token, arguments that stay, and an empty state of five slots. Small, so that no state grows without bounds."""
    moving, staying, state = SEQUENCE[name]
    every = {n: (tokens, *s) for n, s in moving.items()} | staying
    values = {n: normal(seed + i, *shape) * np.float32(SHORT) for i, (n, shape) in enumerate(every.items())}
    values |= {n: -np.abs(a) for n, a in values.items() if n in NEGATIVE}
    return {n: values[n] for n in moving}, {n: values[n] for n in staying}, np.zeros((5, *state), np.float32)


def run(name, provider, **call):
    """On a provider's kernel; the state in `call` is changed."""
    held = {n: tensor.of(v) for n, v in call.items()}
    with Dispatcher([find(provider)], strict=True):
        out = REGISTRY[name](**held)
    call["state"][...] = held["state"].numpy()
    return out.numpy().copy()


def whole(name, provider, moving, staying, state):
    tokens = len(next(iter(moving.values())))
    slots = ints(*[-1] * (tokens - 1), 1)
    return run(name, provider, **moving, **staying, state=state, source=ints(0), slots=slots, starts=ints(0, tokens))


@pytest.mark.parametrize("provider", ["reference", "portable"])
@pytest.mark.parametrize("name", SEQUENCE)
def test_cuts_change_no_bit(name, provider):
    @settings(max_examples=15, deadline=None)
    @given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 1000))
    def check(parts, seed):
        moving, staying, state = drawn(name, sum(parts), seed)
        cut = state.copy()
        want, got, at = whole(name, provider, moving, staying, state), [], 0
        for i, n in enumerate(parts):
            piece = {key: a[at : at + n] for key, a in moving.items()}
            slots = ints(*[-1] * (n - 1), 1)
            got.append(run(name, provider, **piece, **staying, state=cut, source=ints(1 if i else 0), slots=slots, starts=ints(0, n)))
            at += n
        assert np.concatenate(got).tobytes() == want.tobytes()
        assert cut[1].tobytes() == state[1].tobytes()

    check()


@pytest.mark.parametrize("provider", ["reference", "portable"])
@pytest.mark.parametrize("name", SEQUENCE)
def test_requests_side_by_side_change_no_bit(name, provider):
    made = [drawn(name, n, seed) for seed, n in ((0, 3), (10, 1), (20, 6))]
    staying, state = made[0][1], made[0][2].copy()
    alone = [(whole(name, provider, m, staying, s), s[1]) for m, _, s in made]
    moving = {n: np.concatenate([m[n] for m, _, _ in made]) for n in made[0][0]}
    slots = ints(-1, -1, 3, 1, -1, -1, -1, -1, -1, 4)
    out = run(name, provider, **moving, **staying, state=state, source=ints(0, 0, 0), slots=slots, starts=ints(0, 3, 4, 10))
    for part, slot, (want, kept) in zip(np.split(out, [3, 4]), (3, 1, 4), alone, strict=True):
        assert part.tobytes() == want.tobytes()
        assert state[slot].tobytes() == kept.tobytes()
    assert not state[0].any()
    assert not state[2].any()


@pytest.mark.parametrize("name", SEQUENCE)
def test_every_token_s_state_can_be_kept(name):
    """A sequence may start again from any of them."""
    moving, staying, state = drawn(name, 4, 7)
    kept = np.zeros((6, *state.shape[1:]), np.float32)
    want = run(name, "portable", **moving, **staying, state=kept, source=ints(0), slots=ints(2, 3, 4, 5), starts=ints(0, 4))
    for t in range(1, 4):
        rest = {n: a[t:] for n, a in moving.items()}
        walk = {"source": ints(t + 1), "slots": ints(*[-1] * (4 - t)), "starts": ints(0, 4 - t)}
        assert run(name, "portable", **rest, **staying, state=kept, **walk).tobytes() == want[t:].tobytes()


def walk(tokens):
    return {"source": ints(0), "slots": ints(*[-1] * tokens), "starts": ints(0, tokens)}


def test_causal_conv_by_hand():
    x, weight, bias = normal(0, 5, 3), normal(1, 4, 3), normal(2, 3)
    padded = np.concatenate([np.zeros((3, 3)), x]).astype(np.float64)
    want = [[sum(padded[t + j, c] * weight[j, c] for j in range(4)) + bias[c] for c in range(3)] for t in range(5)]
    got = causal_conv(x, weight, bias, np.zeros((1, 3, 3), np.float32), **walk(5), activate=False)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    activated = causal_conv(x, weight, bias, np.zeros((1, 3, 3), np.float32), **walk(5))
    np.testing.assert_allclose(activated, silu(np.float32(want)), rtol=1e-5, atol=1e-7)


def test_gated_delta_keeps_a_value_until_it_is_replaced():
    """With beta 1 and no decay a key reads back the value that was stored under it last."""
    q = k = np.eye(3, dtype=np.float32)[[0, 1, 0, 2]].reshape(4, 1, 3)
    v = normal(0, 4, 1, 2)
    nothing, one = np.zeros((4, 1, 1), np.float32), np.ones((4, 1), np.float32)
    state = np.zeros((2, 1, 3, 2), np.float32)
    out = gated_delta(q, k, v, nothing, one, state, ints(0), ints(-1, -1, -1, 1), ints(0, 4))
    np.testing.assert_array_equal(out, v)
    np.testing.assert_array_equal(state[1, 0], v[[2, 1, 3], 0])


def test_gated_delta_forgets_by_channel():
    k = np.eye(2, dtype=np.float32)[[0, 1]].reshape(2, 1, 2)
    q, v = np.ones((2, 1, 2), np.float32), np.ones((2, 1, 1), np.float32)
    decay = np.log(np.float32([[[0.5, 0.25]], [[0.5, 0.25]]]))
    out = gated_delta(q, k, v, decay, np.ones((2, 1), np.float32), np.zeros((1, 1, 2, 1), np.float32), **walk(2))
    np.testing.assert_allclose(out.reshape(-1), [1, 1.5], rtol=1e-6)


def test_selective_scan_is_a_sum_over_the_past():
    x, dt, b, c = normal(0, 6, 1, 2), np.abs(normal(1, 6, 1)), normal(2, 6, 1, 3), normal(3, 6, 1, 3)
    a, d = np.float32([-0.7]), np.float32([0.3])
    want = d[0] * x[:, 0].astype(np.float64)
    for t in range(6):
        for s in range(t + 1):
            kept = math.exp(-0.7 * float(dt[s + 1 : t + 1].astype(np.float64).sum()))
            want[t] += kept * float(c[t, 0] @ b[s, 0]) * dt[s, 0] * x[s, 0]
    got = selective_scan(x, dt, a, b, c, d, np.zeros((1, 1, 3, 2), np.float32), **walk(6))
    np.testing.assert_allclose(got[:, 0], want, rtol=1e-5, atol=1e-6)


def test_channel_scan_is_a_selective_scan_of_heads_of_one():
    x, dt, b, c = normal(0, 5, 2), np.abs(normal(1, 5, 2)), normal(2, 5, 3), normal(3, 5, 3)
    a, d = np.float32([-0.5, -1.5]), normal(4, 2)
    got = channel_scan(x, dt, np.tile(a, (3, 1)), b, c, d, np.zeros((1, 3, 2), np.float32), **walk(5))
    want = selective_scan(x[:, :, None], dt, a, b[:, None], c[:, None], d, np.zeros((1, 2, 3, 1), np.float32), **walk(5))
    np.testing.assert_allclose(got, want[:, :, 0], rtol=1e-6, atol=1e-7)


def test_time_step_and_sigmoid_by_hand():
    x = np.float32([-40, -3, 0, 3, 40])
    np.testing.assert_allclose(time_step(x, None), [math.log1p(math.exp(v)) for v in x], rtol=1e-6)
    np.testing.assert_allclose(
        time_step(x, np.ones(5, np.float32), 0.1, 2.0), [0.1, math.log1p(math.exp(-2)), math.log1p(math.e), 2, 2], rtol=1e-6
    )
    np.testing.assert_allclose(sigmoid(x), [1 / (1 + math.exp(-v)) for v in x], rtol=1e-6)
