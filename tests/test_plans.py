"""Recorded steps are kept while they are used and while their bytes fit."""

import numpy as np
import pytest

from vtcore.dispatch import Dispatcher
from vtcore.ops import add, mul
from vtcore.plans import MOST_TOKENS, Plans
from vtcore.providers import ProviderOptions, find
from vtcore.tensor import of


@pytest.fixture(scope="module")
def dispatcher():
    provider = find("portable", ProviderOptions(threads=1))
    yield Dispatcher([provider])
    provider.close()


class Steps:
    """A step that adds its rows up twice, and counts how often it ran op by op."""

    def __init__(self, dispatcher, **options):
        self.dispatcher, self.plans, self.calls = dispatcher, Plans(dispatcher, **options), 0
        self.one = {n: of(np.arange(n * 8, dtype=np.float32).reshape(n, 8)) for n in (3, 4, 5, MOST_TOKENS + 1)}

    def forward(self, tensors):
        self.calls += 1
        x = self.one[tensors["tokens"].shape[0]]
        return mul(add(x, x), x)

    def run(self, n):
        with self.dispatcher:
            out = self.plans.run({"tokens": np.zeros(n, np.int64)}, self.forward).numpy().copy()
        assert np.array_equal(out, 2 * self.one[n].numpy() ** 2)


@pytest.mark.feature("Recorded decode steps")
def test_a_shape_is_recorded_when_it_comes_again(dispatcher):
    steps = Steps(dispatcher)
    for _ in range(5):
        steps.run(3)
    assert steps.calls == 2


def test_long_steps_are_not_recorded(dispatcher):
    steps = Steps(dispatcher)
    for _ in range(4):
        steps.run(MOST_TOKENS + 1)
    assert steps.calls == 4


def test_without_a_dispatcher_nothing_is(dispatcher):
    steps = Steps(dispatcher)
    steps.plans = Plans(None)
    for _ in range(4):
        steps.run(3)
    assert steps.calls == 4


def test_the_least_recently_used_gives_way_when_bytes_run_out(dispatcher):
    steps = Steps(dispatcher, most_bytes=1024)  # two results of 256 bytes a plan: two plans
    for n in (3, 3, 4, 4, 3, 5, 5):
        steps.run(n)
    kept = [p is not None for p in steps.plans._plans.values()]
    assert sum(p.nbytes for p in steps.plans._plans.values() if p) <= 1024
    assert kept == [True, True]
    before = steps.calls
    steps.run(3)
    assert steps.calls == before
    steps.run(4)
    assert steps.calls == before + 1
