"""A request's logits and tokens have the same bits alone, in a batch, whole, in chunks, after preemption, and with one thread or two."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkpoints import random_llama
from tests.tiny import all_logits
from vtcore.assembly import assemble
from vtcore.engine import Engine
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams

PROVIDERS = ["reference", "portable"]
PROMPTS = [list(np.random.default_rng(i).integers(0, 300, n)) for i, n in enumerate([1, 7, 33, 70, *range(2, 31)])]


@cache
def folder() -> Path:
    return random_llama(Path(mkdtemp()) / "random", max_position_embeddings=96)


def engine(provider: str, **options) -> Engine:
    return assemble(open_checkpoint(folder()), Options(providers=provider, **{"max_num_seqs": 33, "block_size": 8} | options), None).engine


@cache
def alone(provider: str) -> list[bytes]:
    e = engine(provider)
    return [all_logits(e, [p])[0] for p in PROMPTS]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("count", [2, 7, 33])
def test_in_a_batch(provider, count):
    assert all_logits(engine(provider), PROMPTS[:count]) == alone(provider)[:count]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_in_any_chunks(provider):
    @settings(max_examples=12, deadline=None)
    @given(st.integers(3, 40), st.integers(1, 3), st.integers(16, 40))
    def check(budget, seqs, pages):
        e = engine(provider, max_num_batched_tokens=budget, max_num_seqs=seqs)
        for pool in e.scheduler.kv.pools.values():
            pool.take(pool.num_free - pages)  # others hold the rest: these may get any pages, and lose them
        assert all_logits(e, PROMPTS[2:5]) == alone(provider)[2:5]

    check()


@pytest.mark.parametrize("threads", [1, 2])
def test_with_one_thread_or_two(threads):
    assert all_logits(engine("portable", threads=threads), PROMPTS[:5]) == alone("portable")[:5]


@pytest.mark.parametrize("capture", [False, True])
def test_replayed_or_op_by_op(capture):
    """The same batch three times: from the second on its steps are replayed, if they are recorded at all."""
    e = engine("portable", capture=capture)
    for _ in range(3):
        assert all_logits(e, PROMPTS[:3]) == alone("portable")[:3]


def answers(e: Engine, order) -> dict[int, object]:
    """Seeded and greedy answers by the prompt's number, submitted in an order, with as many steps in between as each says."""
    params = [SamplingParams(temperature=t, seed=9, max_tokens=6, logprobs=2) for t in (0.0, 1.0)]
    submitted = {}
    for number, steps in order:
        submitted[number] = e.submit(PROMPTS[number], params[number % 2])
        for _ in range(steps):
            e.step()
    while not e.idle:
        e.step()
    return {n: s.output().outputs for n, s in submitted.items()}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_whoever_comes_when_and_whatever_is_preempted(provider):
    one = {n: answers(engine(provider), [(n, 0)])[n] for n in (0, 1, 2, 5, 12)}

    @settings(max_examples=8, deadline=None)
    @given(st.permutations([0, 1, 2, 5, 12]), st.lists(st.integers(0, 4), min_size=5, max_size=5), st.booleans())
    def check(order, steps, tiny):
        e = engine(provider, max_num_seqs=3, max_num_batched_tokens=11)
        if tiny:
            for pool in e.scheduler.kv.pools.values():
                pool.take(pool.num_free - 6)  # 48 tokens are left for all
        assert answers(e, list(zip(order, steps, strict=True))) == one

    check()
