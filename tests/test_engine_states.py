"""Layers with a state in the engine: the same bits alone, in a batch, in chunks, replayed, after preemption, in a used slot."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiny import all_logits
from vtcore.assembly import assemble
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.engine import Engine
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams

NAMES = ["qwen3_5", "falcon_h1", "mamba2"]  # delta nets and pages; scans and pages in one layer; nothing but scans
PROMPTS = [list(np.random.default_rng(i).integers(0, 300, n)) for i, n in enumerate([1, 7, 33, 20, 2, 12])]


@cache
def folder(name: str) -> Path:
    return Golden.load(FOLDER / f"{name}.json").write_safetensors(Path(mkdtemp()) / name)


def engine(name: str, **options) -> Engine:
    small = {"max_num_seqs": 4, "block_size": 8, "max_model_len": 96, "threads": 1}
    return assemble(open_checkpoint(folder(name)), Options(providers="portable", **small | options), None).engine


@cache
def alone(name: str) -> list[bytes]:
    return [all_logits(engine(name), [p])[0] for p in PROMPTS]


@pytest.mark.parametrize("name", NAMES)
def test_together_one_after_the_other_and_again(name):
    """More requests than slots, twice: each begins from nothing, whoever had its slot before."""
    e = engine(name)
    assert all_logits(e, PROMPTS) == alone(name)
    assert all_logits(e, PROMPTS[::-1]) == alone(name)[::-1]


@pytest.mark.parametrize("name", NAMES)
def test_in_any_chunks(name):
    @settings(max_examples=5, deadline=None)
    @given(st.integers(4, 40), st.integers(1, 4), st.booleans())
    def check(budget, seqs, capture):
        assert all_logits(engine(name, max_num_batched_tokens=budget, max_num_seqs=seqs, capture=capture), PROMPTS) == alone(name)

    check()


def answers(e: Engine, order) -> dict[int, object]:
    submitted = {}
    for number in order:
        submitted[number] = e.submit(PROMPTS[number], SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True))
        e.step()
    while not e.idle:
        e.step()
    return {n: s.output().outputs for n, s in submitted.items()}


@pytest.mark.parametrize("name", ["qwen3_5", "falcon_h1"])
def test_after_preemption_a_state_is_computed_anew(name):
    one = {n: answers(engine(name), [n])[n] for n in (1, 2, 3)}
    e = engine(name, max_num_batched_tokens=16)
    for group, pool in e.scheduler.kv.pools.items():
        pool.take(0 if group == "state" else pool.num_free - 8)  # 64 tokens are left for the 120 that three would keep
    kept, preempted = e.scheduler.kv.free, []
    e.scheduler.kv.free = lambda request: (preempted.append(request), kept(request))[1]
    assert answers(e, [2, 3, 1]) == one
    assert len(preempted) > 3
