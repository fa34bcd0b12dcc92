"""What GGUF metadata may say, and what is refused; what is read from blocks. Answers are held to in conformance/test_gguf.py."""

from functools import cache

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gguf_converter import parts
from tests.models.rand import logits
from tests.writers import Quantised, Typed, write_gguf
from vtcore.conformance.gate import answer, judge
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.errors import CheckpointError, ConfigError, TensorNamesError, UnknownArchitectureError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.formats.metadata import Metadata
from vtcore.models.gemma3 import Gemma3
from vtcore.models.gguf_config import SPECIAL, as_hf
from vtcore.models.llama import Llama
from vtcore.models.load import identify, load_model
from vtcore.models.weights import Weights


@cache
def golden(name):
    return Golden.load(FOLDER / f"{name}.json")


def load(g, path, quantise=None, options=None, **changes):
    """A golden's file with `changes` in its metadata (ARCH stands for the architecture), read. `quantise(name, array)` may give blocks."""
    metadata, tensors = parts(g)
    metadata |= {key.replace("ARCH", metadata["general.architecture"]): value for key, value in changes.items()}
    tensors = {n: (quantise(n, a) if quantise else None) or a for n, a in tensors.items()}
    return load_model(open_checkpoint(write_gguf(path / "model.gguf", metadata, tensors)), max_model_len=g.max_model_len, **options or {})


def by_kind(g):
    """Which layers see a window."""
    return {"ARCH.attention.sliding_window_pattern": [kind == "sliding_attention" for kind in g.config["layer_types"]]}


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("llama_rope_alpha", {"ARCH.rope.scaling.alpha": 1000.0}),
        ("mistral_sliding", {"ARCH.attention.sliding_window": 8}),
        ("gemma2", {"ARCH.attention.scale": 32**-0.5}),
        ("gemma3", {"ARCH.attention.scale": 32**-0.5, **by_kind(golden("gemma3"))}),
        ("gemma3_rope_linear", {"ARCH.attention.scale": 32**-0.5, **by_kind(golden("gemma3_rope_linear"))}),
    ],
)
def test_keys_that_no_converter_writes_are_read(name, keys, tmp_path):
    g = golden(name)
    verdict = judge(g, answer(load(g, tmp_path, **keys), g))
    assert verdict.passed, str(verdict)


def q8(name, a):
    """Projections as Q8_0."""
    if a.ndim < 2 or a.shape[-1] % 32:
        return None
    raw = gguf.quants.quantize(a, gguf.GGMLQuantizationType.Q8_0)
    return Quantised(a.shape, 8, raw)


def dense(name, a):
    """The same values, dense."""
    if a.ndim < 2 or a.shape[-1] % 32:
        return None
    kind = gguf.GGMLQuantizationType.Q8_0
    return Quantised(a.shape, 0, gguf.quants.dequantize(gguf.quants.quantize(a, kind), kind).astype(np.float32))


@pytest.mark.parametrize("name", ["llama", "phi3", "gemma3", "granite"])
def test_quantised_rows_are_cut_and_reordered_as_they_are_stored(name, tmp_path):
    g = golden(name)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    blocks, values = load(g, tmp_path / "a", q8), load(g, tmp_path / "b", dense)
    assert blocks.survey.bytes_by_format["Q8_0"] > 0
    assert str(blocks.layers[1].q_proj.weight.dtype) == str(blocks.layers[1].up_proj.weight.dtype) == "Q8_0"
    assert blocks.weights.notes == {}
    np.testing.assert_array_equal(logits(blocks, g.cases[1].prompt), logits(values, g.cases[1].prompt))


def test_fast_numerics_are_for_quantised_weights(tmp_path):
    g = golden("llama")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    fast = load(g, tmp_path / "a", q8, {"numerics": "fast"})
    plain = load(g, tmp_path / "b", options={"numerics": "fast"})
    near = logits(fast, g.cases[1].prompt)
    exact = logits(load(g, tmp_path / "a", q8), g.cases[1].prompt)
    assert 0 < np.abs(near - exact).max() < 0.5
    assert {u.op.name for u in fast.survey.uses if u.name == "q_proj"} == {"linear_q8"}
    assert {u.op.name for u in plain.survey.uses if u.name == "q_proj"} == {"linear"}


def test_one_number_for_each_layer(tmp_path):
    g = golden("llama")
    kv = g.config["num_key_value_heads"]
    each = Typed("[i32]", [kv] * g.config["num_hidden_layers"])
    model = load(g, tmp_path, **{"ARCH.attention.head_count_kv": each})
    assert judge(g, answer(model, g)).passed
    assert [model.caches(w)["kv"].shapes["k"][0] for w in model.layers] == [kv] * g.config["num_hidden_layers"]


def test_each_layer_has_its_own_entry():
    """88 of them, none cut off; the cache follows."""
    g = golden("llama")
    layers = 88
    numbers = [2 if i % 2 else 1 for i in range(layers)]
    metadata, _ = parts(g)
    raw, spelled = as_hf(Metadata(metadata | {"llama.block_count": layers, "llama.attention.head_count_kv": numbers}), Weights({}))
    config = Llama.read_config(Llama.defaults | raw, spelled=spelled)
    assert [config.layer(i).kv_heads for i in range(layers)] == numbers


def test_windows_by_a_list_of_booleans(tmp_path):
    g = golden("gemma3")
    booleans = [True, True, False, True, True, False]
    metadata, _ = parts(g)
    file = write_gguf(tmp_path / "m.gguf", metadata | {"gemma3.block_count": 6, "gemma3.attention.sliding_window_pattern": booleans})
    with pytest.raises(TensorNamesError):
        load_model(open_checkpoint(file))
    config = identify(open_checkpoint(file)).config
    assert [k == "sliding_attention" for k in config.kinds] == booleans


@pytest.mark.parametrize(
    ("keys", "want"),
    [
        ({}, "default"),
        ({"rope.scaling.factor": 4.0}, ("linear", 4.0)),
        ({"rope.scale_linear": 4.0}, ("linear", 4.0)),
        ({"rope.scale_linear": 2.0, "rope.scaling.factor": 4.0}, ("linear", 4.0)),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, ("linear", 4.0)),
        ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, "default"),
        ({"rope.scaling.factor": 0.0}, "default"),
        ({"rope.scaling.type": "linear", "rope.scaling.factor": 0.0}, "default"),
    ],
)
def test_a_factor_without_a_type_stretches_linearly(keys, want):
    raw, _ = as_hf(Metadata(metadata_with(keys)), Weights({}))
    scaling = raw["rope_scaling"]
    assert (scaling["rope_type"] if want == "default" else (scaling["rope_type"], scaling["factor"])) == want


def metadata_with(keys):
    return parts(golden("llama"))[0] | {f"llama.{key}": value for key, value in keys.items()}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ARCH.rope.scaling.factor": -1.0}, "'llama.rope.scaling.factor' is -1.0; a number from 0"),
        ({"ARCH.rope.scale_linear": "x"}, "'llama.rope.scale_linear' is 'x'; a finite number"),
        ({"ARCH.rope.scaling.type": "yarn", "ARCH.rope.scaling.factor": -1.0, "ARCH.rope.scaling.attn_factor": 2.0}, "factor' is -1.0"),
        ({"ARCH.block_count": 0}, "llama.block_count' is 0"),
        ({"ARCH.embedding_length": -64}, "llama.embedding_length is -64"),
        ({"ARCH.attention.head_count": 3}, "llama.attention.head_count is 3 and llama.attention.head_count_kv is"),
        ({"ARCH.attention.head_count_kv": Typed("[i32]", [2, 2])}, "'llama.attention.head_count_kv' is [2, 2]"),
        ({"ARCH.context_length": "long"}, "llama.context_length is 'long'"),
        ({"ARCH.attention.layer_norm_rms_epsilon": float("nan")}, "llama.attention.layer_norm_rms_epsilon is nan"),
        ({"ARCH.rope.scaling.type": "spiral"}, "llama.rope.scaling.type is 'spiral'; it must be none, linear, yarn or longrope"),
        ({"ARCH.rope.scaling.type": 3}, "'llama.rope.scaling.type' is 3"),
        ({"ARCH.attention.sliding_window_pattern": [True]}, "has 1 entries; it must have one for each of"),
    ],
)
def test_metadata_that_are_refused(changes, words, tmp_path):
    with pytest.raises(ConfigError) as e:
        load(golden("llama"), tmp_path, **changes)
    assert words in str(e.value)
    assert "model.gguf" in str(e.value)


KEYS = [
    "block_count", "embedding_length", "context_length", "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.layer_norm_rms_epsilon", "attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base",
    "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.attn_factor", "final_logit_softcapping",
]  # fmt: skip
GEMMA3, _ = parts(golden("gemma3"))
single = (
    st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=9) | st.sampled_from(["linear", "yarn", "longrope"])
)


@given(st.dictionaries(st.sampled_from(KEYS), single | st.lists(st.integers(-4, 4), max_size=4) | st.lists(st.booleans(), max_size=4)))
def test_any_metadata_are_read_or_refused(changes):
    metadata = Metadata(GEMMA3 | {f"gemma3.{key}": value for key, value in changes.items()})
    try:
        raw, spelled = as_hf(metadata, Weights({}))
        config = Gemma3.read_config(Gemma3.defaults | raw, spelled=spelled)
        Gemma3(config, Weights({}))
    except ConfigError:
        return
    assert config.heads % config.kv_heads == 0


def test_an_architecture_that_is_not_known(tmp_path):
    file = write_gguf(tmp_path / "m.gguf", {"general.architecture": "llama9", "llama9.block_count": 1})
    with pytest.raises(UnknownArchitectureError, match=r"'llama9' \(nearest: llama\); there are apertus, arcee"):
        load_model(open_checkpoint(file))
    file = write_gguf(tmp_path / "n.gguf", {"general.name": "x"})
    with pytest.raises(ConfigError, match=r"general\.architecture"):
        load_model(open_checkpoint(file))


def test_missing_and_unread_tensors_in_the_file_s_own_names(tmp_path):
    g = golden("gemma2")
    metadata, tensors = parts(g)
    tensors["blk.0.attn_extra.weight"] = tensors.pop("blk.1.post_ffw_norm.weight")
    with pytest.raises(TensorNamesError) as e:
        load_model(open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors)))
    assert "1 missing: blk.1.post_ffw_norm.weight" in str(e.value)
    assert "1 that Gemma2 does not read: blk.0.attn_extra.weight" in str(e.value)


def test_rows_that_the_heads_do_not_divide(tmp_path):
    g = golden("llama")
    metadata, tensors = parts(g)
    tensors["blk.0.attn_q.weight"] = tensors["blk.0.attn_q.weight"][:-1].copy()
    with pytest.raises(CheckpointError, match=r"blk\.0\.attn_q\.weight \[63, 64\].*can't be brought into the form"):
        load_model(open_checkpoint(write_gguf(tmp_path / "m.gguf", metadata, tensors)))


def test_the_27b_have_a_scale_of_their_own():
    numbers = {"hidden_size": 4608, "num_attention_heads": 32, "head_dim": 128}
    assert SPECIAL["gemma2"](numbers | {"num_hidden_layers": 46}) == {"query_pre_attn_scalar": 144}
    assert SPECIAL["gemma2"](numbers | {"num_hidden_layers": 42}) == {"query_pre_attn_scalar": 128}
    assert SPECIAL["gemma3"](numbers | {"num_hidden_layers": 62}) == {"query_pre_attn_scalar": 144}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ARCH.feed_forward_length": 100}, "the config's llama.feed_forward_length is 100"),
        ({"ARCH.attention.head_count": 8}, "the config's llama.attention.head_count is 8, and a head has 16 channels"),
        ({"ARCH.attention.head_count_kv": 1}, "the config's llama.attention.head_count_kv is 1"),
        ({"ARCH.vocab_size": 299}, "the config's llama.vocab_size is 299"),
    ],
)
def test_metadata_that_the_tensors_contradict(changes, said, tmp_path):
    with pytest.raises(CheckpointError) as e:
        load(golden("llama"), tmp_path, **{"ARCH.attention.key_length": 16} | changes)
    assert said in str(e.value)
