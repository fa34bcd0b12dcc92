"""The models that engines are compared on: what is written is what was meant."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from gguf import GGUFReader, quants
from make_bench_models import HIDDEN, TYPES, as_directory, make, numbers, random_blocks, shapes, stored_as, synthetic

from tests.writers import write_gguf
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.llm import LLM

IDS = [1, 5, 9, 3, 3]
METADATA = {
    "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 64, "llama.embedding_length": 32,
    "llama.feed_forward_length": 64, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.vocab_size": 50,
    "llama.rope.freq_base": 10000.0, "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 8,
    "general.file_type": 3,
}  # fmt: skip
TOKENS = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.tokens": ["a", "b"]}


def tensors():
    rng = np.random.default_rng(0)
    sizes = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32)}
    sizes |= {"ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64), "attn_norm": (32,), "ffn_norm": (32,)}
    wanted = {"token_embd.weight": (50, 32), "output_norm.weight": (32,)}
    wanted |= {f"blk.{i}.{n}.weight": s for i in range(2) for n, s in sizes.items()}
    return {n: rng.normal(len(s) == 1, 0.1, s).astype(ml_dtypes.bfloat16).astype(np.float32) for n, s in wanted.items()}


@pytest.fixture
def source(tmp_path):
    return GGUFReader(write_gguf(tmp_path / "source.gguf", METADATA | TOKENS, tensors()))


def logits(path):
    with LLM(path, providers="reference") as llm:
        return llm.logits(IDS)


def test_the_directory_is_the_same_model(source, tmp_path):
    plain = write_gguf(tmp_path / "plain.gguf", METADATA, tensors())
    as_directory(source, tmp_path / "hf")
    assert np.allclose(logits(tmp_path / "hf"), logits(plain), atol=1e-5)
    assert {str(t.dtype) for t in open_checkpoint(tmp_path / "hf").tensors.values()} == {"bfloat16"}


@pytest.mark.parametrize(("kind", "embedding"), [(TYPES.Q8_0, TYPES.Q8_0), (TYPES.Q4_0, TYPES.Q8_0), (TYPES.BF16, TYPES.BF16)])
def test_matrices_are_stored_anew_and_the_rest_is_kept(source, tmp_path, kind, embedding):
    stored_as(kind, embedding)(source, tmp_path / "made.gguf")
    made = open_checkpoint(tmp_path / "made.gguf")
    assert made.metadata["llama.rope.freq_base"] == 10000.0
    assert list(made.metadata["tokenizer.ggml.tokens"]) == ["a", "b"]
    read = GGUFReader(tmp_path / "made.gguf")
    types = {t.name: t.tensor_type for t in read.tensors}
    assert types["token_embd.weight"] == embedding
    assert types["blk.1.ffn_down.weight"] == kind
    assert types["blk.0.attn_norm.weight"] == TYPES.F32
    for tensor in read.tensors:
        assert np.allclose(quants.dequantize(tensor.data, tensor.tensor_type), tensors()[tensor.name], atol=0.06)


@pytest.mark.parametrize("kind", [TYPES.Q4_K, TYPES.Q6_K])
def test_random_blocks_are_sane_weights(kind):
    values = quants.dequantize(random_blocks(np.random.default_rng(1), kind, 64, 512), kind)
    assert values.shape == (64, 512)
    assert abs(values.mean()) < 0.003
    assert 0.01 < values.std() < 0.03
    assert abs(values).max() < 0.2


def test_a_synthetic_model_is_as_its_numbers_say(source, tmp_path, monkeypatch):
    monkeypatch.setattr("make_bench_models.LAYERS", {"q4_k": 1})
    synthetic("q4_k", TYPES.Q4_K)(source, tmp_path / "made.gguf")
    made = open_checkpoint(tmp_path / "made.gguf")
    assert made.tensors["blk.0.ffn_down.weight"].shape == shapes()["ffn_down"]
    assert made.tensors["token_embd.weight"].shape == (50, HIDDEN)
    assert {made.metadata[f"llama.{key}"] for key in numbers(1)} == set(numbers(1).values())
    assert "general.file_type" not in made.metadata
    assert all(columns % 256 == 0 for _, columns in shapes().values())


def test_what_is_made_already_is_left(tmp_path):
    (tmp_path / "smollm2-135m-q8_0.gguf").write_text("as it was")
    assert make("q8_0", tmp_path).read_text() == "as it was"
