"""Keys and values in 8 bits: the same bits in any company, scales of a checkpoint, how much memory that saves, and what can't have it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.checkpoints import random_llama
from tests.models import rand
from vtcore.assembly import assemble
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.engine import Engine
from vtcore.errors import ArgumentError, CheckpointError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.kvcache.cache import Cache, Paged, State, page_bytes
from vtcore.kvcache.codes import DTYPES, coded
from vtcore.kvcache.config import CacheConfig
from vtcore.llm import LLM
from vtcore.memory_plan import Needs, plan_memory
from vtcore.models.load import load_model
from vtcore.options import Options
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig

EIGHT = [name for name in DTYPES if name not in ("auto", "fp8")]
HEAD = list(np.random.default_rng(0).integers(0, 300, 32))
PROMPTS = [HEAD + list(np.random.default_rng(i).integers(0, 300, n)) for i, n in enumerate([1, 7, 33, 20])]
KEPT = SamplingParams(temperature=0, max_tokens=0)
TURNED = 2.0**14  # keys so much larger, and queries smaller: the same scores, of keys that no 8-bit float holds
ABOUT = {"quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized"}}


@cache
def folder() -> Path:
    return random_llama(Path(mkdtemp()) / "random", max_position_embeddings=96)


def engine(name: str, provider: str = "portable", **options) -> Engine:
    chosen = Options(kv_cache_dtype=name, providers=provider, **{"block_size": 8} | options)
    return assemble(open_checkpoint(folder()), chosen, None).engine


def logits(e: Engine, prompts) -> list[np.ndarray]:
    submissions = [e.submit(p, KEPT, keep_logits=True) for p in prompts]
    while not e.idle:
        e.step()
    return [np.concatenate(s.logits) for s in submissions]


def tokens(e: Engine, prompts) -> list[list[int]]:
    submissions = [e.submit(p, SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)) for p in prompts]
    while not e.idle:
        e.step()
    return [s.requests[0].output_token_ids for s in submissions]


@pytest.mark.feature("fp8 KV cache")
@pytest.mark.parametrize("provider", ["portable", "reference"])
@pytest.mark.parametrize("name", EIGHT)
def test_a_request_has_the_same_bits_alone_in_a_batch_and_in_chunks(name, provider):
    e = engine(name, provider)
    alone = [logits(e, [p])[0] for p in PROMPTS]
    for got in (logits(engine(name, provider), PROMPTS), logits(engine(name, provider, max_num_batched_tokens=5, max_num_seqs=4), PROMPTS)):
        assert [a.tobytes() for a in got] == [a.tobytes() for a in alone]


@pytest.mark.parametrize("name", EIGHT)
def test_what_the_cache_had_changes_no_token(name):
    e = engine(name)
    first = [tokens(e, [p])[0] for p in PROMPTS]
    assert e.stats().cache.hits > 0
    assert first == [tokens(engine(name, enable_prefix_caching=False), [p])[0] for p in PROMPTS]


@pytest.mark.parametrize("name", EIGHT)
def test_providers_agree_and_nothing_falls_back(name):
    with LLM(folder(), kv_cache_dtype=name, providers="portable", strict=True, block_size=8) as llm:
        got = logits(llm.engine, PROMPTS[:1])[0]
    want, exact = logits(engine(name, "reference"), PROMPTS[:1])[0], logits(engine("auto", "reference"), PROMPTS[:1])[0]
    np.testing.assert_allclose(got, want, atol=0.01)  # a key between two codes may get either
    assert 1e-7 < np.abs(want - exact).max() < 0.1  # it is another number, and a near one


@pytest.mark.feature("fp8 KV cache")
def test_fp8_is_e4m3():
    assert logits(engine("fp8"), PROMPTS[:1])[0].tobytes() == logits(engine("fp8_e4m3"), PROMPTS[:1])[0].tobytes()


def scaled(directory: Path, scales, name: str = "fp8_e4m3", **more):
    """Keys and values 2**14 times as large; the checkpoint's scales by the end of their names."""
    weights = rand.tensors()
    for layer in range(2):
        base = f"model.layers.{layer}.self_attn."
        weights[base + "q_proj.weight"] /= TURNED
        for part, by in (("k_proj.weight", TURNED), ("v_proj.weight", TURNED), ("o_proj.weight", 1 / TURNED)):
            weights[base + part] = weights[base + part] * np.float32(by)
        weights |= {base + n: np.float32(np.reshape(s, np.shape(s))) for n, s in scales.items()}
    return rand.load(directory, rand.CONFIG | ABOUT, weights, kv_cache_dtype=name, **more)


@pytest.mark.parametrize(
    "scales",
    [
        {"k_scale": TURNED, "v_scale": [TURNED]},
        {"k_proj.k_scale": [TURNED], "v_proj.v_scale": TURNED},
        {"k_proj.output_scale": TURNED, "v_proj.output_scale": TURNED},
        {"attn.k_scale": TURNED, "attn.v_scale": TURNED},
        {"kv_scale": TURNED},
        {"k_scale": TURNED},
    ],
    ids=lambda s: "+".join(s),
)
def test_a_checkpoint_s_scales_are_divided_by_and_multiplied_with(scales, tmp_path):
    model = scaled(tmp_path / "scaled", scales)
    plain = rand.load(tmp_path / "plain", kv_cache_dtype="fp8_e4m3")
    got, want = (rand.logits(m, PROMPTS[0]) for m in (model, plain))
    np.testing.assert_array_equal(got, want)  # powers of two: the codes are the same
    assert any("scales of keys and values count where kv_cache_dtype" in n for n in model.weights.notes)


def test_without_scales_they_are_one_and_too_large_values_become_the_largest(tmp_path):
    model = scaled(tmp_path / "scaled", {})
    k = Cache(model.specs(), 24, rand.PAGE)
    assert k.arrays[0, "kv"]["k"].dtype == np.dtype("float8_e4m3fn")
    got, want = rand.logits(model, PROMPTS[0]), rand.logits(rand.load(tmp_path / "plain"), PROMPTS[0])
    assert np.isfinite(got).all()
    assert np.abs(got - want).max() > 1e-3


def test_scales_count_for_nothing_else(tmp_path):
    for name in ("auto", "int8_per_token_head"):
        with_them = scaled(tmp_path / name, {"k_scale": 3.0, "v_scale": 5.0}, name)
        without = scaled(tmp_path / f"{name} without", {}, name)
        np.testing.assert_array_equal(rand.logits(with_them, PROMPTS[0]), rand.logits(without, PROMPTS[0]))


def large(directory: Path, scales=None) -> Path:
    """A checkpoint whose keys and values no e4m3 holds."""
    scaled(directory, scales or {})
    return directory


@pytest.mark.feature("fp8 KV cache")
@pytest.mark.parametrize("provider", ["portable", "reference", "opencl,portable"])
def test_scales_are_calculated_where_the_checkpoint_has_none(provider, tmp_path):
    def served(name, **options):
        chosen = Options(kv_cache_dtype=name, providers=provider, block_size=8, **options)
        return assemble(open_checkpoint(path), chosen, None)

    path = large(tmp_path)
    exact, without, with_them = served("auto"), served("fp8"), served("fp8", calculate_kv_scales=True)
    want = [logits(exact.engine, [p])[0] for p in PROMPTS]
    alone = [logits(with_them.engine, [p])[0] for p in PROMPTS]
    assert max(np.abs(a - w).max() for a, w in zip(alone, want, strict=True)) < 0.1
    assert np.abs(logits(without.engine, PROMPTS[:1])[0] - want[0]).max() > 1
    again = served("fp8", calculate_kv_scales=True)
    assert [a.tobytes() for a in logits(again.engine, PROMPTS[::-1])[::-1]] == [a.tobytes() for a in alone]
    assert again.model.kept == with_them.model.kept
    scales = [one for by in with_them.model.kept.scales.values() for one in by]
    assert all(np.log2(one) % 1 == 0 and TURNED / 10000 < one < TURNED for one in scales)


def test_a_layer_s_own_scales_stay(tmp_path):
    path = large(tmp_path)
    tensors = load_file(path / "model.safetensors")
    tensors["model.layers.1.self_attn.kv_scale"] = np.float32(7).reshape(1)
    save_file(tensors, path / "model.safetensors")
    options = Options(kv_cache_dtype="fp8_e5m2", calculate_kv_scales=True, providers="portable")
    assembled = assemble(open_checkpoint(path), options, None)
    assert assembled.model.kept.scales[1] == (7.0, 7.0)
    assert assembled.model.kept.scales[0] != (1.0, 1.0)


def test_scales_that_can_have_no_effect_are_not_calculated(tmp_path):
    for name in ("auto", "int8_per_token_head"):
        with pytest.raises(ArgumentError, match=f"calculate_kv_scales has no effect with kv_cache_dtype '{name}'"):
            Options(kv_cache_dtype=name, calculate_kv_scales=True)
    with pytest.raises(ArgumentError, match="calculate_kv_scales is 1; it must be True or False"):
        Options(kv_cache_dtype="fp8", calculate_kv_scales=1)
    options = Options(kv_cache_dtype="fp8", calculate_kv_scales=True, providers="reference")
    with pytest.raises(ArgumentError, match="calculate_kv_scales has no effect: the checkpoint has the scales of every layer"):
        assemble(open_checkpoint(large(tmp_path, {"kv_scale": 3.0})), options, None)


def test_pages_of_other_scales_are_other_pages(tmp_path):
    def stored(**options):
        chosen = Options(kv_cache_dtype="fp8", providers="portable", block_size=8, kv_offloading_dir=tmp_path / "pages", **options)
        e = assemble(open_checkpoint(folder()), chosen, None).engine
        before = e.stats().cache.tiers["disk"].pages
        tokens(e, PROMPTS[:1])
        e.close()
        return before

    assert stored() == 0
    assert stored() > 0
    assert stored(calculate_kv_scales=True) == 0
    assert stored(calculate_kv_scales=True) > 0


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, [1.0, 2.0], []])
def test_a_scale_that_can_not_be_one(wrong, tmp_path):
    with pytest.raises(CheckpointError, match=r"model\.layers\.0\.self_attn\.k_scale is .*the scale of a layer's keys or values"):
        scaled(tmp_path, {"k_scale": wrong})


def test_layers_that_read_others_keys_use_their_scales(tmp_path):
    """Gemma 3n's last layers have no keys of their own."""
    g = Golden.load(FOLDER / "gemma3n.json")
    path = g.write_safetensors(tmp_path)
    model = load_model(open_checkpoint(path), max_model_len=g.max_model_len, kv_cache_dtype="int8_per_token_head")
    plain = load_model(open_checkpoint(path), max_model_len=g.max_model_len)
    ids = g.cases[0].prompt[:16]
    got, want = rand.logits(model, ids), rand.logits(plain, ids)
    assert 0 < np.abs(got - want).max() < 0.1 * np.abs(want).max()


SPECS = {
    (0, "kv"): Paged({"k": (2, 8), "v": (2, 4)}, heads=True),
    (1, "kv"): Paged({"latent": (24,)}),
    (2, "state"): State({"conv": (6, 3)}),
}


@pytest.mark.feature("fp8 KV cache")
def test_what_a_page_takes():
    plain, float8, int8 = (page_bytes(coded(SPECS, name), 16) for name in ("auto", "fp8", "int8_per_token_head"))
    group, latent = "text/window=0/every=1", 16 * 24 * 4
    assert plain[group] - latent == 16 * 24 * 4
    assert float8[group] - latent == 16 * 24
    assert int8[group] - latent == 16 * (24 + 2 * 2 * 4)  # and a float32 for each head of keys and of values
    assert plain["state"] == float8["state"] == int8["state"]
    cache = Cache(coded(SPECS, "int8_per_token_head"), 3, 16)
    assert cache.arrays[0, "kv"]["k_scales"].shape == (3, 16, 2)
    assert cache.nbytes == sum(t.nbytes for arrays in cache.arrays.values() for t in arrays.values())


@pytest.mark.feature("fp8 KV cache")
def test_the_plan_says_what_it_saves():
    specs = {(i, "kv"): Paged({"k": (2, 8), "v": (2, 8)}, heads=True) for i in range(3)}
    needs, config = Needs(1000, 0, 10, 5), SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=16, max_model_len=64)
    plain = plan_memory(needs, specs, config, CacheConfig(16), "1GiB")
    eight = plan_memory(needs, coded(specs, "fp8"), config, CacheConfig(16, kv_cache_dtype="fp8"), "1GiB")
    assert eight.kv_cache * 4 == plain.kv_cache
    assert eight.saved == plain.kv_cache - eight.kv_cache
    assert "KV cache in fp8, 76.5 KiB less than in float32" in str(eight)
    assert plain.saved == 0


def test_names():
    with pytest.raises(ArgumentError, match="kv_cache_dtype is 'fp4'; choose one of auto, fp8, fp8_e4m3, fp8_e5m2, int8_per_token_head"):
        Options(kv_cache_dtype="fp4")


@pytest.mark.parametrize(("golden", "kept"), [("deepseek_v3", "latent"), ("mamba2", "conv, matrix")])
def test_latents_and_states_are_kept_whole(golden, kept, tmp_path):
    g = Golden.load(FOLDER / f"{golden}.json")
    path = g.write_safetensors(tmp_path)
    words = f"kv_cache_dtype is 'fp8' and has no effect: 8 bits are for keys and values of heads, and this model keeps {kept}"
    with pytest.raises(ArgumentError, match=words):
        load_model(open_checkpoint(path), max_model_len=g.max_model_len, kv_cache_dtype="fp8")
