"""States on a device: the same bits however a sequence is cut, and whoever else is in the batch."""

from itertools import islice

import numpy as np
import pytest

from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.providers import ProviderOptions
from vtcore.providers.opencl import make
from vtcore.tensor import held, zeros

TOKENS = {"x", "q", "k", "v", "decay", "beta", "dt", "b", "c"}  # arguments with a row a token
WALKING = (ops.causal_conv, ops.gated_delta, ops.selective_scan, ops.channel_scan)
LENGTH = 7  # tokens of the second sample, one request


@pytest.fixture(scope="module")
def opencl():
    return make(ProviderOptions())


def ints(*values):
    return np.array(values, np.int32)


def keeping(count, slot):
    """Of so many tokens the last is kept."""
    return [-1] * (count - 1) + [slot]


def walked(provider, op, call, state, source, starts, slots):
    """Some requests of a call on a provider, its state changed."""
    rows = {n: held(v) for n, v in call.items() if n not in ("state", "source", "starts", "slots")}
    with Dispatcher([provider], strict=True):
        return op(**rows, state=state, source=held(ints(*source)), starts=held(ints(*starts)), slots=held(ints(*slots))).numpy()


def second(op):
    """The second sample, and a fresh state for it."""
    call = list(islice(op.samples(np.random.default_rng(0)), 2))[1]
    return call, lambda: zeros((3, *call["state"].shape[1:]))


@pytest.mark.parametrize("op", WALKING, ids=lambda op: op.name)
def test_a_sequence_gives_the_same_bits_however_it_is_cut(opencl, op):
    call, fresh = second(op)
    want = walked(opencl, op, call, fresh(), [0], [0, LENGTH], keeping(LENGTH, 1))
    state, got = fresh(), []
    for begin, end in ((0, 1), (1, 2), (2, 6), (6, 7)):
        part = {n: v[begin:end] if n in TOKENS else v for n, v in call.items()}
        got.append(walked(opencl, op, part, state, [1 if begin else 0], [0, end - begin], keeping(end - begin, 1)))
    np.testing.assert_array_equal(np.concatenate(got), want)


@pytest.mark.parametrize("op", WALKING, ids=lambda op: op.name)
def test_a_request_that_reads_what_another_keeps_comes_after_it(opencl, op):
    call, fresh = second(op)
    want = walked(opencl, op, call, fresh(), [0], [0, LENGTH], keeping(LENGTH, 1))
    got = walked(opencl, op, call, fresh(), [0, 1], [0, 3, LENGTH], keeping(3, 1) + keeping(LENGTH - 3, 2))
    np.testing.assert_array_equal(got, want)
