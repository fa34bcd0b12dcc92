"""Requests that are answered from the cache: the same bits as alone, for every kind of layer that keeps something."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest

from vtcore.assembly import Options, assemble
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.engine import Engine
from vtcore.formats.checkpoint import open_checkpoint
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


@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize("unit", [8, 2])
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
