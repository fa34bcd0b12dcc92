"""The goldens' checkpoints as llama.cpp would hold them: the same tokens, the same logits."""

import re
from dataclasses import replace

import gguf
import numpy as np
import pytest

from tests.conformance.gated import EXACT, ONE_EACH
from tests.conformance.test_rules import assert_same_bits
from tests.gguf_converter import ARCHITECTURES, UNSAID, convert, gguf_name, parts
from tests.gguf_families import FAMILIES
from tests.gguf_mixtures import FIXED
from tests.gguf_states import STATES
from tests.writers import write_gguf
from vtcore.conformance.gate import Way, answer, judge, load
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.models.registry import GGUF_ARCHITECTURES, load_all
from vtcore.providers import chain

GOLDENS = [g for g in EXACT if g.architecture in ARCHITECTURES]
Type = gguf.GGMLQuantizationType
SAID = [g for g in GOLDENS if g.name not in UNSAID and g.name not in FIXED]


def opened(golden, path):
    return load_model(open_checkpoint(path), max_model_len=golden.max_model_len)


@pytest.mark.parametrize(
    ("golden", "kind"),
    [
        (g, kind)
        for g in SAID
        for kind in ([Type.F32, Type.F16, Type.BF16] if g in ONE_EACH and g.architecture not in {**FAMILIES, **STATES} else [Type.BF16])
    ],
    ids=lambda p: p.name,
)
def test_the_same_answers_from_gguf(golden, kind, tmp_path):
    """Every value of a golden fits all three types."""
    model = opened(golden, convert(golden, tmp_path / "model.gguf", kind))
    verdict = judge(golden, answer(model, golden))
    assert verdict.passed, str(verdict)
    assert model.weights.unread() == []


@pytest.mark.parametrize("name", FIXED)
def test_a_format_without_a_word_for_a_number_means_the_usual_one(name, tmp_path):
    golden = Golden.load(FOLDER / f"{name}.json")
    usual = replace(golden, config=golden.config | FIXED[name])
    model = opened(usual, convert(usual, tmp_path / "model.gguf"))
    for r, s in zip(answer(load(usual), usual), answer(model, usual), strict=True):
        assert r.tokens == s.tokens
        np.testing.assert_allclose(r.rows, s.rows, rtol=1e-5, atol=golden.tolerance)  # MiniCPM 3's logits are then 16 times as large
    assert model.weights.unread() == []


def whole_latent(metadata, tensors):
    """As before latent attention had keys of its own: what expands it is one matrix, and heads are said as they are expanded."""
    name = metadata["general.architecture"]
    old = {f"{name}.attention.{k}_length": metadata.pop(f"{name}.attention.{k}_length_mla") for k in ("key", "value")}
    old[f"{name}.attention.head_count_kv"] = metadata[f"{name}.attention.head_count"]
    for keys in [n for n in tensors if n.endswith("attn_k_b.weight")]:
        values = tensors.pop(keys.replace("k_b", "v_b"))
        both = np.concatenate([tensors.pop(keys).swapaxes(1, 2), values], 1)
        tensors[keys.replace("k_b", "kv_b")] = both.reshape(-1, both.shape[2])
    return metadata | old, tensors


def one_by_one(metadata, tensors):
    """As before experts were stacked."""
    stacks = {n: tensors.pop(n) for n in list(tensors) if "_exps" in n}
    return metadata, tensors | {n.replace("_exps", f".{e}"): a for n, stack in stacks.items() for e, a in enumerate(stack)}


def in_one_stack(metadata, tensors):
    """Gate and up of an expert in one matrix."""
    for gate in [n for n in tensors if n.endswith("ffn_gate_exps.weight")]:
        both = [tensors.pop(gate), tensors.pop(gate.replace("gate", "up"))]
        tensors[gate.replace("gate", "gate_up")] = np.concatenate(both, 1)
    return metadata, tensors


def in_one_matrix(metadata, tensors):
    """Queries, keys and values, and their biases."""
    for q in [n for n in tensors if re.search(r"attn_q\.(weight|bias)$", n)]:
        parts = [tensors.pop(q.replace("attn_q", f"attn_{n}")) for n in "qkv"]
        tensors[q.replace("attn_q", "attn_qkv")] = np.concatenate(parts)
    return metadata, tensors


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((n, whole_latent) for n in ("deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "kimi_k2", "glm4_moe_lite")),
        *((n, one_by_one) for n in ("mixtral", "qwen2_moe")),
        *((n, in_one_stack) for n in ("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_moe", "deepseek_v3", "granite_moe")),
        *((n, in_one_matrix) for n in ("phi", "phimoe", "glm4")),
    ],
)
def test_what_other_converters_store_otherwise_is_the_same(name, way, tmp_path):
    golden = Golden.load(FOLDER / f"{name}.json")
    model = opened(golden, write_gguf(tmp_path / "model.gguf", *way(*parts(golden))))
    verdict = judge(golden, answer(model, golden, chain(None)))
    assert verdict.passed, str(verdict)
    assert model.weights.unread() == []


def test_every_gguf_architecture_is_gated():
    load_all()
    ours = {name for name, cls in GGUF_ARCHITECTURES.items() if cls.__module__.startswith("vtcore.models")}
    assert ours == {gguf_name(g) for g in GOLDENS if g.name not in UNSAID}
    assert set(UNSAID) <= {g.name for g in GOLDENS}


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3_six", "phi3", "qwen3_moe"])
@pytest.mark.parametrize("providers", ["reference", "portable"])
def test_a_quantised_weight_means_its_values(name, providers, tmp_path):
    """In Q8_0, and in float32 with the same numbers."""
    golden = Golden.load(FOLDER / f"{name}.json")
    paths = [convert(golden, tmp_path / f"{lossy}.gguf", Type.Q8_0, lossy) for lossy in (False, True)]
    runs = [answer(opened(golden, path), golden, chain(providers)) for path in paths]
    if providers == "reference":
        assert_same_bits(*runs)
    for r, s in zip(*runs, strict=True):
        assert r.tokens == s.tokens
        np.testing.assert_allclose(r.rows, s.rows, atol=1e-4)


def test_fast_experts_round_what_they_multiply(tmp_path):
    """experts_q8 where numerics are fast: the same bits each way, and nearly the exact logits, but where another expert is chosen."""
    golden = Golden.load(FOLDER / "qwen3_moe.json")
    path = convert(golden, tmp_path / "model.gguf", Type.Q8_0)
    exact, fast = (load_model(open_checkpoint(path), numerics=numerics) for numerics in ("exact", "fast"))
    assert {op.name for op, _ in fast.uses()} >= {"experts_q8"}
    some, others, third = (answer(m, golden, chain(None), way) for m, way in ((fast, Way.BATCHED), (fast, Way.ALONE), (exact, Way.BATCHED)))
    assert_same_bits(some, others)
    for r, s in zip(some, third, strict=True):
        assert 0 < np.median(np.abs(r.rows[: r.prompt] - s.rows[: r.prompt])) < 0.1
