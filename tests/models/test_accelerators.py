"""Small models whole on a device: the oracle's tokens, no op left to its definition, and the same bits however prompts are run."""

from dataclasses import replace

import pytest

from tests.conformance.test_rules import assert_same_bits
from vtcore.conformance.gate import Way, answer, fallen, load
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.providers import find

DEVICES = ("opencl", "vulkan")
NAMES = ("llama", "qwen3", "gemma2", "granite", "mixtral", "qwen3_next", "falcon_h1")  # `python tools/gate_accelerators.py` runs all
TOKENS = 4  # of each answer: software devices are slow


def golden_of(name):
    golden = Golden.load(FOLDER / f"{name}.json")
    return replace(golden, cases=tuple(replace(c, tokens=c.tokens[:TOKENS]) for c in golden.cases))


@pytest.fixture(scope="module", params=DEVICES)
def device(request):
    provider = find(request.param)
    yield provider
    provider.close()


@pytest.mark.parametrize("name", NAMES)
def test_the_oracles_tokens_and_no_fallback(device, name):
    golden = golden_of(name)
    verdict, definitions = fallen(load(golden), golden, [device])
    assert verdict.passed, str(verdict)
    assert verdict.tokens == TOKENS * len(golden.cases)
    assert definitions == {}


@pytest.mark.parametrize("name", ["llama", "falcon_h1"])
def test_the_same_bits_each_way(device, name):
    golden = golden_of(name)
    model = load(golden)
    batched, *others = (answer(model, golden, [device], way) for way in Way)
    for other in others:
        assert_same_bits(batched, other)
