"""Groups of layers that share the cache's bytes: the same bits, more sequences, and no more memory than was planned."""

import sys

import numpy as np
import pytest

from tests.test_engine_prefix import PROMPTS, alone, answers, folder
from vtcore.assembly import Assembled, assemble
from vtcore.engine import Engine
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.kvcache.cache import Cache
from vtcore.memory import HOST
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system takes back no page when it is told")
HYBRID = ["gemma3", "gemma4_e2b", "llama4", "deepseek_v4", "qwen3_next", "kimi_linear", "jamba", "falcon_h1"]


@pytest.fixture
def small_pages(monkeypatch):
    """As if the system's pages were as small as the cache's; what is given back holds nonsense afterwards. How many were."""
    given = []

    def give_back(self, group, page):
        given.append(group)
        for key, spec in self.specs.items():
            for tensor in self.arrays[key].values() if spec.group == group else ():
                tensor.numpy()[page] = np.nan

    monkeypatch.setattr("vtcore.system_pages.SIZE", 256)
    monkeypatch.setattr(Cache, "give_back", give_back)
    return given


def squeezed(name: str, part: float, **options) -> Engine:
    """An engine whose cache has a part of the bytes that four sequences of full length take."""
    plenty = plan(name, "1GiB", **options).plan
    return plan(name, int(plenty.total - (1 - part) * plenty.kv_cache), **options).engine


def plan(name: str, limit: int | str, **more) -> Assembled:
    small = {"max_num_seqs": 4, "block_size": 8, "max_model_len": 96, "max_num_batched_tokens": 24}
    options = Options(providers="portable", threads=1, capture=False, memory_limit=limit, **small | more)
    return assemble(open_checkpoint(folder(name)), options, None)


@pytest.mark.feature("Hybrid KV groups (full attention + GDN/Mamba)")
@pytest.mark.parametrize("name", HYBRID)
def test_the_same_bits_where_groups_take_each_others_memory(name, small_pages):
    e = squeezed(name, 0.45)
    for _ in range(2):
        assert [o.outputs for o in answers(e, PROMPTS, at_once=True)] == alone(name)
    assert small_pages
    budget = e.scheduler.kv.budget
    assert budget.spare == budget.nbytes
    assert budget.paid <= budget.nbytes


def test_short_sequences_run_together_where_a_division_for_long_ones_would_not_hold_them(small_pages, monkeypatch):
    """Of full length a sequence needs 12 pages of full attention and 3 of the window; a short one needs 2 of each."""
    most = {}
    for shares in (True, False):
        monkeypatch.setattr(HOST, "gives_back", shares)
        e = squeezed("gemma3", 0.3, max_num_batched_tokens=8)
        assert (e.scheduler.kv.budget is not None) == shares
        submissions = [e.submit(p[:8], SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)) for p in PROMPTS[:4]]
        most[shares] = 0
        while not e.idle:
            e.step()
            most[shares] = max(most[shares], len(e.scheduler.running))
        assert all(s.finished for s in submissions)
    assert most == {True: 3, False: 1}
