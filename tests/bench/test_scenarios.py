"""Scenarios: both ways are run, and give the same tokens."""

from functools import partial
from pathlib import Path

import pytest

from tests.checkpoints import random_llama
from vtcore.bench import scenarios
from vtcore.bench.measured import Effort
from vtcore.bench.run import Choice
from vtcore.errors import ArgumentError, VtcoreError
from vtcore.llm import LLM


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.setattr(scenarios, "SHARED", 40)
    monkeypatch.setattr(scenarios, "BATCH", 3)
    folder: Path = random_llama(tmp_path / "random", max_position_embeddings=96)
    return partial(LLM, folder, block_size=8, threads=1)


@pytest.mark.feature("Cascade attention")
def test_a_shared_prefix_with_cascade_and_without(load):
    with_it, without, gain = scenarios.shared_prefix(load, Effort(repetitions=2, steps=3))
    assert [f.unit for f in (with_it, without, gain)] == ["tokens/s", "tokens/s", "x"]
    assert len(gain.runs) == 6
    for a, b, x in zip(with_it.runs, without.runs, gain.runs, strict=True):
        assert x == pytest.approx(a / b)


def test_other_tokens_are_an_error(load, monkeypatch):
    seen = iter(([[1]], [[2]]))
    monkeypatch.setattr(scenarios, "_tokens", lambda submissions, count: next(seen))
    with pytest.raises(VtcoreError, match="chose other tokens"):
        list(scenarios.shared_prefix(load, Effort(repetitions=1, steps=2)))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"scenario": "none"}, "there is shared-prefix"), ({"scenario": "shared-prefix", "only": ("decode",)}, "leave one of the two away")],
)
def test_choices(options, words):
    with pytest.raises(ArgumentError, match=words):
        Choice("m", **options)
