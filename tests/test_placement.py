"""What `vtcore explain` says of a chain is what its report says after a run."""

from collections import Counter
from itertools import pairwise

import pytest

from vtcore import LLM, SamplingParams
from vtcore.conformance.golden import goldens
from vtcore.placement import Placement
from vtcore.providers import find

LLAMA = next(g for g in goldens() if g.name == "llama")
ONE = SamplingParams(temperature=0, max_tokens=1)
SAMPLING = "argmax"  # no part of a forward


@pytest.mark.parametrize("declined", [(), ("rms_norm",), ("silu_mul", "rotate", "rope_angles")], ids=" ".join)
@pytest.mark.parametrize("capture", [True, False], ids=["recorded", "op by op"])
@pytest.mark.parametrize("shares", [True, False], ids=["one memory", "two memories"])
def test_a_forward_runs_and_copies_what_was_predicted(declined, capture, shares, tmp_path, monkeypatch):
    provider = find("opencl")
    provider.device.shares = shares
    for name in declined:
        del provider.kernels[name]
    monkeypatch.setattr("vtcore.assembly.find_providers", lambda options: [provider])
    path = LLAMA.write_safetensors(tmp_path)
    with LLM(path, capture=capture, max_model_len=128, block_size=16, enable_prefix_caching=False) as llm:
        placement = Placement([provider])
        predicted, ran = [], []
        for _ in range(3):
            placement.forward(llm.model, 16)
            predicted.append(counted(placement))
            llm.generate([list(range(1, 17))], ONE)
            ran.append(counted(llm._dispatcher))
    assert added(predicted) == added(ran)


@pytest.mark.parametrize("chain", ["portable", "opencl", "opencl,portable", "portable,opencl", "reference"])
def test_what_a_provider_before_it_reads_is_not_planned_as_repacked(chain, tmp_path):
    path = LLAMA.write_safetensors(tmp_path)
    with LLM(path, providers=chain, max_model_len=128, max_num_batched_tokens=16) as llm:
        plan = llm.memory_plan
    assert plan.repacked == (plan.weights if chain.startswith("portable") else 0)


@pytest.mark.parametrize(("lacks", "share"), [("linear", 0.5), ("rms_norm", 0.0)])
def test_what_it_declines_is_planned_as_repacked_by_the_next(lacks, share, tmp_path, monkeypatch):
    first, then = find("opencl"), find("portable")
    del first.kernels[lacks]
    monkeypatch.setattr("vtcore.assembly.find_providers", lambda options: [first, then])
    with LLM(LLAMA.write_safetensors(tmp_path), max_model_len=128) as llm:
        plan = llm.memory_plan
    assert share * plan.weights < plan.repacked < plan.weights


def counted(counts):
    """Runs, declines, copies and bytes so far."""
    declines = Counter({(d.op, d.reason): n for d, n in counts.declines.items()})
    return [Counter({k: n for k, n in c.items() if k[0] != SAMPLING}) for c in (counts.ran, declines, counts.copies, counts.bytes)]


def added(seen):
    """What each forward but the first, which brings weights, has added."""
    return [[b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(seen)]
