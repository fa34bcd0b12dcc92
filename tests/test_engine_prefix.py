"""Requests that are answered from the cache: the same bits as alone, for every kind of layer that keeps something."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from vtcore.assembly import assemble
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.engine import Engine
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams

KINDS = {  # golden: what its layers keep
    "llama": "full attention",
    "gemma3": "windows beside full attention",
    "gemma4_e2b": "windows, and layers that read another's pages",
    "llama4": "chunks beside full attention",
    "deepseek_v3": "latents",
    "deepseek_v32": "latents and an indexer's keys",
    "deepseek_v4": "a window, and entries for every few tokens",
    "qwen3_next": "delta nets beside full attention",
    "kimi_linear": "delta nets by channel beside latents",
    "mamba2": "scans alone",
    "jamba": "scans by channel beside full attention",
    "falcon_h1": "scans and pages in one layer",
    "llama_rope_dynamic": "angles that grow with the prompt",
}
COMMON = list(np.random.default_rng(0).integers(0, 300, 61))


def prompt(seed: int, shared: int, own: int) -> list[int]:
    return COMMON[:shared] + list(np.random.default_rng(seed).integers(0, 300, own))


PROMPTS = [prompt(1, 33, 4), prompt(2, 33, 1), prompt(3, 61, 7), prompt(4, 61, 7), prompt(5, 20, 0), prompt(5, 16, 0), prompt(3, 61, 7)]


@cache
def folder(name: str) -> Path:
    return Golden.load(FOLDER / f"{name}.json").write_safetensors(Path(mkdtemp()) / name)


def engine(name: str, **options) -> Engine:
    small = {"max_num_seqs": 4, "block_size": 8, "max_model_len": 96, "threads": 1, "max_num_batched_tokens": 24}
    return assemble(open_checkpoint(folder(name)), Options(providers="portable", **small | options), None).engine


def answers(e: Engine, prompts, at_once: bool):
    params = SamplingParams(temperature=0, max_tokens=9, logprobs=3, ignore_eos=True)
    submissions = []
    for p in prompts:
        submissions.append(e.submit(p, params))
        while not at_once and not e.idle:
            e.step()
    while not e.idle:
        e.step()
    return [s.output() for s in submissions]


@cache
def alone(name: str):
    return [answers(engine(name, enable_prefix_caching=False), [p], False)[0].outputs for p in PROMPTS]


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
@pytest.mark.feature("Sliding-window and chunked-local attention")
@pytest.mark.feature("Prefix-cache matching unit")
@pytest.mark.feature("Automatic prefix caching")
@pytest.mark.parametrize(("unit", "at_once"), [(8, False), (8, True), (2, True)])
@pytest.mark.parametrize("name", KINDS)
def test_whatever_layers_keep_is_found_again(name, unit, at_once):
    e = engine(name, prefix_match_unit=unit)
    first = answers(e, PROMPTS, at_once)
    again = answers(e, PROMPTS[::-1], at_once)[::-1]
    assert [o.outputs for o in first] == alone(name)
    assert [o.outputs for o in again] == alone(name)
    cached = [o.num_cached_tokens for o in again]
    assert all(n < len(p) for n, p in zip(cached, PROMPTS, strict=True))
    assert max(cached) > 0


@pytest.mark.parametrize("name", ["llama", "gemma3", "deepseek_v4", "qwen3_next"])
def test_several_sequences_of_a_prompt_are_those_that_it_has_with_their_seeds_alone(name):
    e, three = engine(name), SamplingParams(temperature=0.9, seed=5, max_tokens=6, n=3, logprobs=1, ignore_eos=True)
    submissions = [e.submit(p, three) for p in PROMPTS[1:4]]
    while not e.idle:
        e.step()
    for p, s in zip(PROMPTS[1:4], submissions, strict=True):
        plain = engine(name, enable_prefix_caching=False)
        for i, out in enumerate(s.output().outputs):
            alone = plain.submit(p, SamplingParams(temperature=0.9, seed=5 + i, max_tokens=6, logprobs=1, ignore_eos=True))
            while not plain.idle:
                plain.step()
            assert (out.token_ids, out.logprobs) == (alone.output().outputs[0].token_ids, alone.output().outputs[0].logprobs)
        assert [r.num_cached_tokens for r in s.requests[1:]] == [len(p) - 1] * 2


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
def test_a_state_survives_where_prompts_part():
    e = engine("qwen3_next")
    assert [answers(e, [p], False)[0].num_cached_tokens for p in (prompt(7, 45, 5), prompt(8, 45, 5), prompt(9, 45, 5))] == [0, 0, 40]


def test_prompt_logprobs_are_complete_with_the_prompt_in_the_cache():
    e, scored = engine("llama"), SamplingParams(temperature=0, max_tokens=3, prompt_logprobs=1)
    for _ in range(2):
        outputs = [e.submit(PROMPTS[2], scored) for _ in range(2)]
        while not e.idle:
            e.step()
        assert len({repr(s.output().prompt_logprobs) for s in outputs}) == 1
        assert [len(s.output().prompt_logprobs) for s in outputs] == [68, 68]
        assert [s.output().num_cached_tokens for s in outputs] == [0, 0]


def test_four_that_preempt_each_other_lose_no_token_and_count_none_twice():
    params = [SamplingParams(temperature=0.8, seed=i, max_tokens=60, presence_penalty=0.5, logprobs=1, ignore_eos=True) for i in range(4)]
    asked = [prompt(i, 10, 10) for i in range(4)]

    def run(**options):
        e = engine("llama", **options)
        submissions = [e.submit(p, s) for p, s in zip(asked, params, strict=True)]
        while not e.idle:
            e.step()
        return e, [s.output() for s in submissions]

    _, one_by_one = run(max_num_seqs=1, enable_prefix_caching=False)
    e, crowded = run(num_gpu_blocks_override=17)
    assert e.stats().preemptions >= 3
    assert e.stats().cache.preempted_hits > 0
    assert [o.outputs for o in crowded] == [o.outputs for o in one_by_one]
    assert [len(o.prompt_token_ids) for o in crowded] == [20] * 4


@pytest.mark.parametrize("name", ["qwen3_next", "mamba2"])
def test_states_are_found_again_in_a_cache_of_as_many_pages_as_one_sequence_takes(name):
    e = engine(name, num_gpu_blocks_override=13)
    assert [o.outputs for o in answers(e, [PROMPTS[0]] * 2, False)] == [alone(name)[0]] * 2
    assert answers(e, PROMPTS[:1], False)[0].num_cached_tokens >= 32
