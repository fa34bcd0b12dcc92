"""A request's logits are its own: the same bits alone, in any company, however its prompt is cut, with one thread or two."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.test_rules import assert_same_bits
from vtcore.conformance.gate import load
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.conformance.runner import Request, Runner
from vtcore.dispatch import Dispatcher
from vtcore.providers import ProviderOptions, chain

NAMES = ["llama", "gemma2", "phi3_longrope_long", "qwen3", "deepseek_v32", "deepseek_v4"]
NAMES += ["mamba2", "qwen3_5", "mamba"]
MODELS = {name: load(Golden.load(FOLDER / f"{name}.json")) for name in NAMES}
PORTABLE = {threads: chain(None, ProviderOptions(threads=threads)) for threads in (1, 2)}
PROMPTS = [np.random.default_rng(i).integers(3, 290, n).tolist() for i, n in enumerate([1, 19, 40, 5, 64, 2, 33] * 5)]


def answered(name, prompts, threads=1, budget=10**9, cuts=()):
    """Requests run together; `cuts` are the budgets of the first steps."""
    requests = [Request(p, 3) for p in prompts]
    runner, left = Runner(MODELS[name], Dispatcher(PORTABLE[threads]), budget, pages=5 * len(prompts) + 2), list(cuts)

    def next_budget(numbers):
        runner.budget = left.pop(0) if left else budget
        return numbers

    runner.shape = next_budget
    runner.run(requests)
    return requests


@pytest.fixture(scope="module")
def alone():
    return {name: [answered(name, [p])[0] for p in PROMPTS[:33]] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("company", [2, 7, 33])
def test_in_company(alone, name, threads, company):
    assert_same_bits(answered(name, PROMPTS[:company], threads), alone[name][:company])


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=8)
@given(st.data())
def test_in_any_company_and_any_chunks(alone, name, data):
    chosen = data.draw(st.lists(st.integers(0, 32), min_size=1, max_size=7), "requests")
    cuts = data.draw(st.lists(st.integers(1, 50), max_size=6), "tokens of the first steps")
    budget = data.draw(st.integers(1, 200), "tokens of the others")
    threads = data.draw(st.sampled_from([1, 2]), "threads")
    assert_same_bits(answered(name, [PROMPTS[i] for i in chosen], threads, budget, cuts), [alone[name][i] for i in chosen])
