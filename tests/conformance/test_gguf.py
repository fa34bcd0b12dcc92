"""The goldens' checkpoints as llama.cpp would hold them: the same tokens, the same logits."""

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.conformance.test_rules import assert_same_bits
from tests.gguf_converter import ARCHITECTURES, UNSAID, convert
from vtcore.conformance.gate import answer, judge
from vtcore.conformance.golden import FOLDER, Golden, goldens
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.models.registry import GGUF_ARCHITECTURES, load_all
from vtcore.providers import chain

GOLDENS = [g for g in goldens(ARCHITECTURES) if g.dtype == "float32"]
Type = gguf.GGMLQuantizationType


def opened(golden, path):
    return load_model(open_checkpoint(path), max_model_len=golden.max_model_len)


@pytest.mark.parametrize("golden", [g for g in GOLDENS if g.name not in UNSAID], ids=lambda g: g.name)
@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16], ids=lambda k: k.name)
def test_the_same_answers_from_gguf(golden, kind, tmp_path):
    """Every value of a golden fits all three types."""
    model = opened(golden, convert(golden, tmp_path / "model.gguf", kind))
    verdict = judge(golden, answer(model, golden))
    assert verdict.passed, str(verdict)
    assert model.weights.unread() == []


def test_every_gguf_architecture_is_gated():
    load_all()
    ours = {name for name, cls in GGUF_ARCHITECTURES.items() if cls.__module__.startswith("vtcore.models")}
    assert ours == {ARCHITECTURES[g.architecture] for g in GOLDENS if g.name not in UNSAID}
    assert set(UNSAID) <= {g.name for g in GOLDENS}


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3_six", "phi3"])
@pytest.mark.parametrize("providers", ["reference", "portable"])
def test_a_quantised_weight_means_its_values(name, providers, tmp_path):
    """Q8_0 in GGUF, and safetensors that hold the same numbers in float32, give the same answers."""
    golden = Golden.load(FOLDER / f"{name}.json")
    quantised = opened(golden, convert(golden, tmp_path / "model.gguf", Type.Q8_0))
    golden.write_safetensors(tmp_path / "dense")
    dense = {n: gguf.dequantize(gguf.quantize(a, Type.Q8_0), Type.Q8_0) if a.ndim > 1 else a for n, a in golden.weights().items()}
    save_file({n: np.ascontiguousarray(a) for n, a in dense.items()}, tmp_path / "dense" / "model.safetensors")
    runs = [answer(m, golden, chain(providers)) for m in (quantised, opened(golden, tmp_path / "dense"))]
    for r, s in zip(*runs, strict=True):
        assert r.tokens == s.tokens
        np.testing.assert_allclose(r.rows, s.rows, atol=1e-4)
    if name == "llama" and providers == "reference":
        assert_same_bits(*runs)
