"""Drawn weights are the same everywhere, fit every dtype that checkpoints use, and goldens say enough to judge by."""

import json
import os

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file

from tests.conformance.gated import ALL, name_of
from vtcore.conformance.draw import Drawn, fold, integers, standard, storable, unfold
from vtcore.conformance.golden import FOLDER, PROBES, Golden, probes


def test_a_draw_is_pinned():
    """These numbers may never change: every golden was recorded with them."""
    assert Drawn("model.norm.weight", (4,), 0.15, 1.0).array(0).tolist() == [1.234375, 1.109375, 0.93359375, 0.8828125]
    assert Drawn("table", (2, 3), distinct=8).array(5).tolist() == [[3, 5, 2], [5, 6, 3]]
    assert integers(3, "prompt 7", 4, 3, 290) == [124, 280, 137, 145]


def test_a_draw_is_nearly_normal():
    z = standard(1, "x", 100_000)
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1) < 0.01
    assert 3.5 < np.abs(z).max() < 4.9


@given(st.floats(-300, 300), st.sampled_from([np.float16, ml_dtypes.bfloat16]))
def test_a_stored_value_fits_every_dtype(x, dtype):
    value = storable(np.array([x]))
    assert value.astype(dtype).astype(np.float32) == value


names = st.builds("layers.{}.{}.{}.weight".format, st.integers(0, 3), st.sampled_from(["a", "b"]), st.integers(0, 12))
drawn = st.builds(Drawn, names, st.just((2,)), st.sampled_from([0.5, 1.0]))


@given(st.lists(drawn, unique_by=lambda d: d.name))
def test_folded_lines_stand_for_the_same_tensors(tensors):
    lines = fold(tensors)
    assert sorted(unfold_all(lines), key=str) == sorted(tensors, key=str)
    assert len(lines) <= len(tensors)


def unfold_all(lines):
    return [t for line in lines for t in unfold(line)]


def test_one_line_for_all_experts_of_all_layers():
    tensors = [Drawn(f"layers.{i}.experts.{e}.weight", (2, 2), 1.0) for i in range(3) for e in range(8)]
    assert [d.name for d in fold(tensors)] == ["layers.{0-2}.experts.{0-7}.weight"]


def test_a_probe_errs_as_a_logit_does():
    rows = np.random.default_rng(0).standard_normal((50, 320))
    moved = probes(rows + 1e-3 * np.random.default_rng(1).standard_normal(rows.shape)) - probes(rows)
    assert 3e-4 < moved.std() < 3e-3


@pytest.mark.parametrize("golden", ALL, ids=name_of)
def test_a_golden_says_enough(golden):
    assert [len(c.prompt) for c in golden.cases] == [1, 7, 33, 70]
    for case in golden.cases:
        assert len(case.tokens) == len(case.margins) == len(case.top) == 32
        assert case.probes.shape == (len(case.prompt) + 31, PROBES)
        assert min(case.margins) >= 2e-3 * 0.99
        assert len(set(case.tokens)) >= 7
    text = golden.config.get("text_config", golden.config)
    assert sum(c.last.size == text["vocab_size"] for c in golden.cases) == 2


def test_goldens_stay_small():
    sizes = {p.name: p.stat().st_size for p in FOLDER.glob("*.json")}
    assert max(sizes.values()) < 40_000
    assert sum(sizes.values()) < 2_500_000


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_written_checkpoint_holds_the_weights(tmp_path, dtype, shards):
    golden = Golden.load(FOLDER / "llama_bias.json")
    golden.write_safetensors(tmp_path, dtype=dtype, shards=shards, older=True)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == shards
    with safe_open(files[0], "numpy") as f:
        assert f.metadata() == {"format": "pt"}
    stored = {n: a for file in files for n, a in load_file(file).items()}
    assert stored.keys() == {t.name for t in golden.tensors()}
    for name, want in golden.weights().items():
        np.testing.assert_array_equal(stored[name].astype(np.float32), want)
    if shards > 1:
        index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
        assert set(index.values()) == {os.path.basename(f) for f in files}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["rope_theta"] == 10000.0
    assert "rope_parameters" not in config
