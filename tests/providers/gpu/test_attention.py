"""Attention, writes into pages and choices on a device: what the ops' samples don't show."""

import numpy as np
import pytest

from vtcore import ops
from vtcore.dispatch import Dispatcher
from vtcore.memory import HOST
from vtcore.ops.inputs import ints, paged
from vtcore.providers import ProviderOptions
from vtcore.providers.opencl import make
from vtcore.tensor import held, zeros

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def opencl():
    return make(ProviderOptions())


def cache(values):
    """Pages that have a truth of their own, with these values."""
    pages = zeros(values.shape, values.dtype)
    pages.numpy()[...] = values
    pages.storage.wrote(HOST)
    return pages


def run(provider, op, **call):
    """An op on a provider, its results on the host."""
    with Dispatcher([provider], strict=True):
        out = op(**{n: cache(v) if n.endswith("_pages") else held(v) for n, v in call.items()})
    return tuple(x.numpy() for x in out) if isinstance(out, tuple) else out.numpy()


def test_a_token_s_bits_are_the_same_alone_in_a_batch_and_in_chunks(opencl):
    whole = paged(RNG, tokens=(150, 3), lengths=(150, 70), heads=(4, 2), width=(33, 33), page=16)
    together = run(opencl, ops.paged_attention, **whole)
    first = {n: v[:1] for n, v in whole.items() if n in ("table", "lengths")}
    for begin, end in ((0, 64), (64, 149), (149, 150)):
        part = {n: whole[n][begin:end] for n in ("q", "until")} | {"starts": ints(0, end - begin), "lengths": ints(end)}
        assert run(opencl, ops.paged_attention, **whole | first | part).tobytes() == together[begin:end].tobytes()


def test_of_a_slot_named_by_many_tokens_the_last_counts(opencl):
    values, slots = RNG.standard_normal((300, 2, 8)).astype(np.float32), RNG.integers(-1, 12, 300).astype(np.int32)
    pages, want = zeros((3, 4, 2, 8)), np.zeros((3, 4, 2, 8), np.float32)
    with Dispatcher([opencl], strict=True):
        ops.write_pages(pages, held(values), held(slots))
    ops.write_pages(want, values, slots)
    assert pages.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize(("width", "k"), [(1024, 1024), (1025, 1), (70_001, 300)])
def test_the_best_of_many_with_ties_and_nan(opencl, width, k):
    x = RNG.integers(-50, 50, (2, width)).astype(np.float32)
    x[0, 5], x[1, ::7] = np.nan, -0.0
    values, ids = run(opencl, ops.top_k, x=x, k=k)
    want_values, want_ids = ops.top_k(x, k)
    assert ids.tolist() == want_ids.tolist()
    assert np.array_equal(values, want_values, equal_nan=True)
    assert run(opencl, ops.argmax, x=x).tolist() == ops.argmax(x).tolist()


@pytest.mark.parametrize("position", [3, 131_071, 1_048_575, 2_000_000_000])
def test_angles_of_far_positions(opencl, position):
    call = {"positions": ints(position, position - 1), "frequencies": np.array([1, 0.3, 1e-4, 7.5], np.float32)}
    assert np.abs(run(opencl, ops.rope_angles, **call) - ops.rope_angles(**call)).max() < 2.5e-7


def test_a_nucleus_ends_where_probabilities_of_powers_of_two_reach_p(opencl):
    x = np.log2(np.array([[4, 2, 1, 1, 0.5, 0.5]], np.float32)).repeat(4, 0) * np.float32(np.log(2))
    x[1:] = 0  # six, then eight alike
    x = np.concatenate([x, np.full((4, 2), -np.inf, np.float32)], 1)
    x[2:] = 0
    call = {"logits": x, "k": ints(0, 0, 0, 5), "p": np.array([0.45, 0.5, 0.5, 0.6], np.float32)}
    assert run(opencl, ops.apply_top_k_top_p, **call).tolist() == ops.apply_top_k_top_p(**call).tolist()
