"""Requests that are answered from tiers below the cache: the same bits as alone, in this process and in the next one."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest

from tests.kvcache.events.test_publisher import AllBlocksCleared, BlockStored, Subscriber
from tests.test_engine_prefix import PROMPTS, alone, answers, engine, folder
from vtcore.assembly import assemble
from vtcore.errors import ArgumentError, OutOfMemoryError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.kvcache.events.config import KVEventsConfig
from vtcore.kvcache.offload.config import OffloadConfig
from vtcore.llm import LLM
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams

KINDS = {"llama": 15, "gemma3": 15, "gemma4_e2b": 15, "llama4": 15, "deepseek_v3": 15, "deepseek_v4": 15, "qwen3_next": 15, "mamba2": 4}
GREEDY = SamplingParams(temperature=0, max_tokens=5)
LOW = {"enable_kv_cache_events": True, "endpoint": "tcp://127.0.0.1:*"}


@pytest.mark.feature("KV offload to host memory")
@pytest.mark.parametrize("name", KINDS)
def test_whatever_layers_keep_comes_back_from_a_tier(name, tmp_path):
    tiers = {"kv_offloading_size": "48KiB", "kv_offloading_policy": "arc", "kv_offloading_dir": tmp_path}
    e = engine(name, prefix_match_unit=2, num_gpu_blocks_override=KINDS[name], **tiers)
    assert [o.outputs for o in answers(e, PROMPTS, False)] == alone(name)
    assert [o.outputs for o in answers(e, PROMPTS[::-1], True)[::-1]] == alone(name)
    assert sum(tier.hits for tier in e.stats().cache.tiers.values()) > 0
    e.close()
    later = engine(name, prefix_match_unit=2, kv_offloading_dir=tmp_path)
    again = answers(later, PROMPTS, False)
    assert [o.outputs for o in again] == alone(name)
    assert again[0].num_cached_tokens > 0
    assert later.stats().cache.tiers["disk"].hits > 0
    assert later.stats().cache.tiers["disk"].damaged == 0


@pytest.mark.parametrize("other", [{"dtype": "bfloat16"}, {"block_size": 4}, {"max_model_len": 64}])
def test_pages_of_another_computation_are_not_found(tmp_path, other):
    e = engine("llama", kv_offloading_dir=tmp_path)
    answers(e, PROMPTS[:1], False)
    e.close()
    assert engine("llama", kv_offloading_dir=tmp_path).stats().cache.tiers["disk"].pages > 0
    assert engine("llama", kv_offloading_dir=tmp_path, **other).stats().cache.tiers["disk"].pages == 0


def test_other_weights_and_other_kernels_make_other_pages(tmp_path):
    e = engine("llama", kv_offloading_dir=tmp_path / "pages")
    answers(e, PROMPTS[:1], False)
    e.close()
    copy = tmp_path / "model"
    copy.mkdir()
    for file in folder("llama").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(data)
    options = {
        "max_num_seqs": 4,
        "block_size": 8,
        "max_model_len": 96,
        "max_num_batched_tokens": 24,
        "kv_offloading_dir": tmp_path / "pages",
    }
    for path, providers, found in ((folder("llama"), "portable", 5), (copy, "portable", 0), (folder("llama"), "reference", 0)):
        made = assemble(open_checkpoint(path), Options(providers=providers, **options), None)
        assert made.engine.stats().cache.tiers["disk"].pages == found


def test_whoever_forgets_to_close_keeps_its_pages(tmp_path):
    options = {"threads": 1, "block_size": 8, "max_model_len": 96, "max_num_seqs": 2, "kv_offloading_dir": tmp_path}
    llm = LLM(folder("llama"), **options)
    prompt = {"prompt_token_ids": [int(i) for i in PROMPTS[0]]}
    first = llm.generate(prompt, GREEDY)[0]
    del llm
    gc.collect()
    with LLM(folder("llama"), **options) as later:
        again = later.generate(prompt, GREEDY)[0]
    assert again.outputs == first.outputs
    assert again.num_cached_tokens == 32


def test_a_reset_forgets_every_tier(tmp_path):
    e = engine("llama", num_gpu_blocks_override=15, kv_offloading_size="1MiB", kv_offloading_dir=tmp_path)
    answers(e, PROMPTS, False)
    assert e.reset_prefix_cache()
    assert all(tier.pages == 0 for tier in e.stats().cache.tiers.values())
    assert answers(e, PROMPTS[:1], False)[0].num_cached_tokens == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_offloading_size": 1, "enable_prefix_caching": False}, "kv_offloading_size has no effect without prefix caching"),
        ({"kv_offloading_dir": "d", "enable_prefix_caching": False}, "kv_offloading_dir has no effect without prefix caching"),
        ({"kv_events_config": LOW, "enable_prefix_caching": False}, "kv_events_config has no effect without prefix caching"),
        ({"kv_offloading_policy": "arc"}, "kv_offloading_policy is arc and has no effect without kv_offloading_size"),
        ({"kv_offloading_dir_size": 3}, "kv_offloading_dir_size is 3 and has no effect without kv_offloading_dir"),
        (
            {"kv_offloading_size": 1, "kv_offloading_policy": "mru"},
            "kv_offloading_policy is 'mru' \\(nearest: lru\\); it must",
        ),
        ({"kv_offloading_size": 0}, "kv_offloading_size is 0; it must be a positive number of GiB"),
        ({"kv_offloading_size": True}, "kv_offloading_size is True"),
        ({"kv_offloading_size": "much"}, "kv_offloading_size is 'much'"),
        ({"kv_offloading_size": float("nan")}, "kv_offloading_size is nan"),
        ({"kv_offloading_size": 1e300}, "kv_offloading_size is 1e"),
        ({"kv_offloading_dir": 3}, "kv_offloading_dir is 3; it must be the path of a directory"),
        ({"kv_offloading_dir": "d", "kv_offloading_dir_size": "-1G"}, "kv_offloading_dir_size is '-1G'"),
        ({"kv_events_config": {"topic": "t"}}, "kv_events_config has no effect"),
        ({"kv_offloading_size": "1KiB"}, "a page of this model takes .*: raise it, or lower block_size"),
    ],
)
def test_what_is_wrong_or_has_no_effect_is_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        engine("llama", **options)


def test_keys_that_no_other_process_could_have_are_refused_with_a_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    options = {"kv_offloading_dir": tmp_path, "prefix_caching_hash_algo": "xxhash"}
    with pytest.raises(ArgumentError, match=r"kv_offloading_dir has no effect with prefix_caching_hash_algo 'xxhash': .*PYTHONHASHSEED"):
        engine("llama", **options)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    for found in (0, 36):
        e = engine("llama", **options)
        assert answers(e, PROMPTS[:1], False)[0].num_cached_tokens == (found and 32)
        e.close()


def test_sizes_are_gib_or_texts():
    assert OffloadConfig(1).host_bytes == OffloadConfig("1").host_bytes == OffloadConfig("1GiB").host_bytes == 1 << 30
    assert OffloadConfig(0.5).host_bytes == OffloadConfig("512M").host_bytes == 1 << 29
    assert OffloadConfig(kv_offloading_dir="d").disk_bytes == 10 << 30


def test_copies_in_the_host_s_memory_are_part_of_the_sum():
    with pytest.raises(
        OutOfMemoryError, match=r"8\.0 MiB copies of its pages \(kv_offloading_size\).*kv_offloading_size for the copies"
    ) as e:
        engine("llama", memory_limit="8MiB", kv_offloading_size="8MiB")
    assert "max_model_len" in str(e.value)


@pytest.mark.feature("KV events (block create / evict publish)")
def test_the_engine_publishes_once_a_step_and_what_happened():
    e = engine("llama", kv_events_config=LOW)
    publisher = e.scheduler.kv.below.publisher
    assert publisher.config == KVEventsConfig(**LOW)
    with Subscriber(publisher.endpoint) as s:
        while not s.sub.poll(50):
            assert e.reset_prefix_cache()
        while s.sub.poll(200):
            s.next()
        answers(e, PROMPTS[:1], False)
        e.reset_prefix_cache()
        told = []
        while not told or told[-1] != AllBlocksCleared():
            told += s.next()[2].events
        assert all(isinstance(event, BlockStored) for event in told[:-1])
        chain_of = [token for event in told[:-1] for token in event.token_ids]
        assert chain_of[:37] == [int(i) for i in PROMPTS[0]]
        assert len(chain_of) == 40  # five whole blocks of prompt and answer
        for one, after in pairwise(told[:-1]):
            assert after.parent_block_hash == one.block_hashes[-1]
    e.close()
