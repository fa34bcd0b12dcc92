"""Scenarios: both ways are run, and give the same tokens."""

from functools import partial
from pathlib import Path

import pytest

from tests.checkpoints import random_llama
from vtcore.bench import cascade, concurrent, lpm, shared_prefix
from vtcore.bench.measured import Effort
from vtcore.bench.run import Choice
from vtcore.bench.scenarios import SCENARIOS
from vtcore.errors import ArgumentError, VtcoreError
from vtcore.llm import LLM

EFFORT = Effort(repetitions=2, steps=3)


@pytest.fixture
def load(tmp_path, monkeypatch):
    for module in (cascade, shared_prefix, lpm):
        monkeypatch.setattr(module, "SHARED", 40)
    for module, name, value in ((cascade, "BATCH", 3), (lpm, "EACH", 2), (lpm, "BEGINNINGS", 3), (concurrent, "REQUESTS", 3)):
        monkeypatch.setattr(module, name, value)
    for name, value in (("IN", 12), ("OUT", 6), ("RAW", 20)):
        monkeypatch.setattr(concurrent, name, value)
    folder: Path = random_llama(tmp_path / "random", max_position_embeddings=96)
    return partial(LLM, folder, block_size=8, threads=1)


@pytest.mark.feature("Cascade attention")
def test_a_shared_prefix_with_cascade_and_without(load):
    with_it, without, gain = cascade.cascade(load, EFFORT)
    assert [f.unit for f in (with_it, without, gain)] == ["tokens/s", "tokens/s", "x"]
    assert len(gain.runs) == 6
    for a, b, x in zip(with_it.runs, without.runs, gain.runs, strict=True):
        assert x == pytest.approx(a / b)


@pytest.mark.feature("Automatic prefix caching")
def test_the_next_prompt_finds_what_the_first_one_left(load, monkeypatch):
    found = []
    real = shared_prefix.prefill
    monkeypatch.setattr(shared_prefix, "prefill", lambda engine, prompt: (real(engine, prompt), found.append(engine.stats().cache.hits))[0])
    first, second, gain = shared_prefix.shared_prefix(load, EFFORT)
    assert found == [0, 40, 40, 80, 80, 120]
    assert len(gain.runs) == 2
    for a, b, x in zip(first.runs, second.runs, gain.runs, strict=True):
        assert x == pytest.approx(a / b)


@pytest.mark.feature("LPM cache-aware admission")
def test_the_longest_match_first_finds_what_others_computed(load, monkeypatch):
    hits, real = {}, lpm._timed

    def timed(llm, prompts):
        before = llm.stats().cache.hits
        told = real(llm, prompts)
        hits.setdefault(llm.engine.scheduler.config.scheduling_policy, []).append(llm.stats().cache.hits - before)
        return told

    monkeypatch.setattr(lpm, "_timed", timed)
    under_fcfs, under_lpm, gain = lpm.lpm(load, EFFORT)
    assert all(b == 3 * 40 > a for a, b in zip(hits["fcfs"], hits["lpm"], strict=True))
    assert gain.runs == pytest.approx((under_fcfs.runs[0] / under_lpm.runs[0],))


def test_requests_at_once_beside_the_raw_speeds(load):
    answers, prompt, batch, share, native = concurrent.concurrent(load, EFFORT)
    assert [f.unit for f in (answers, prompt, batch, share, native)] == ["tokens/s", "tokens/s", "tokens/s", "%", "%"]
    for a, p, d, s in zip(answers.runs, prompt.runs, batch.runs, share.runs, strict=True):
        assert s == pytest.approx(100 * (3 * 12 / p + 3 * 5 / d) * a / (3 * 6))
    assert all(0 < n < 100 for n in native.runs)


@pytest.mark.parametrize("module", [cascade, lpm])
def test_other_tokens_are_an_error(load, monkeypatch, module):
    seen = iter(range(99))
    if module is cascade:
        monkeypatch.setattr(cascade, "_tokens", lambda submissions, count: next(seen))
    else:
        monkeypatch.setattr(lpm, "_timed", lambda llm, prompts: (next(seen), 1.0))
    with pytest.raises(VtcoreError, match="chose other tokens"):
        list(SCENARIOS[module.__name__.split(".")[-1]](load, EFFORT))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scenario": "none"}, "there is cascade, shared-prefix, lpm, concurrent"),
        ({"scenario": "lpm", "only": ("decode",)}, "leave one of the two away"),
    ],
)
def test_choices(options, words):
    with pytest.raises(ArgumentError, match=words):
        Choice("m", **options)
