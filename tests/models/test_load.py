"""From files to a model: names, shapes, tied heads, wrappers, and what is refused, all of it at once."""

import json
import warnings

import ml_dtypes
import numpy as np
import pytest

from tests.models.rand import CONFIG, load, logits, tensors, write
from tests.writers import write_safetensors, write_sharded
from vtcore.errors import ArgumentError, CheckpointError, ConfigError, TensorNamesError, UnknownArchitectureError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.models.load import load_model
from vtcore.tensor import of

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
Q = "model.layers.0.self_attn.q_proj.weight"


def without(*names):
    return {n: a for n, a in tensors().items() if n not in names}


def refused(path, error=TensorNamesError, config=None, weights=None):
    with pytest.raises(error) as e:
        load(path, config, weights)
    return str(e.value)


def test_a_model_runs(tmp_path):
    out = logits(load(tmp_path), PROMPT)
    assert out.shape == (8, 300)
    assert np.isfinite(out).all()


def test_shards_and_dtypes_change_nothing_that_they_should_not(tmp_path):
    want = logits(load(tmp_path / "one"), PROMPT)
    config = tmp_path / "many" / "config.json"
    config.parent.mkdir()
    config.write_text(json.dumps(CONFIG))
    names = list(tensors())
    write_sharded(config.parent, [{n: tensors()[n] for n in names[i::2]} for i in (0, 1)])
    np.testing.assert_array_equal(logits(load_model(open_checkpoint(config.parent)), PROMPT), want)
    halves = {n: a.astype(ml_dtypes.bfloat16) for n, a in tensors().items()}
    near = logits(load(tmp_path / "bf16", weights=halves), PROMPT)
    rounded = logits(load(tmp_path / "same", weights={n: a.astype(np.float32) for n, a in halves.items()}), PROMPT)
    np.testing.assert_array_equal(near, rounded)


def test_weights_stay_in_the_file_and_in_its_dtype(tmp_path):
    model = load(tmp_path, weights={n: a.astype(ml_dtypes.bfloat16) for n, a in tensors().items()})
    q = model.layers[0].q_proj.weight
    assert q.dtype == ml_dtypes.bfloat16
    data = model.weights.tensors[Q].data
    assert q.address == data.__array_interface__["data"][0]


def test_nothing_is_read_before_it_is_used(tmp_path):
    read = []

    def wrap(value):
        read.append(value.shape)
        return of(value)

    model = load(tmp_path, wrap=wrap)
    assert read == []
    assert model.layers[1].down_proj.weight.shape == (32, 48)
    assert read == [(32, 48)]


def test_all_that_is_missing_is_said_at_once(tmp_path):
    gone = ["model.layers.1.input_layernorm.weight", "model.norm.weight", Q, "model.layers.1.mlp.up_proj.weight", "lm_head.weight"]
    message = refused(tmp_path, weights=without(*gone))
    assert "5 missing: " in message
    assert all(n in message for n in gone)
    assert "does not read" not in message


def test_a_whole_kind_that_is_missing_hides_nothing(tmp_path):
    gone = [n for n in tensors() if "down_proj" in n or "k_proj" in n or n.startswith("model.embed")]
    message = refused(tmp_path, weights=without(*gone))
    assert "5 missing" in message
    assert all(n in message for n in gone)


def test_missing_and_unexpected_are_said_together(tmp_path):
    weights = without("model.embed_tokens.weight") | {"model.word_embeddings.weight": tensors()["model.embed_tokens.weight"]}
    message = refused(tmp_path, weights=weights)
    assert "1 missing: model.embed_tokens.weight" in message
    assert "1 that Llama does not read: model.word_embeddings.weight" in message


def test_a_newer_revision_s_extra_tensors_are_listed(tmp_path):
    extra = {f"model.layers.{i}.self_attn.q_norm.weight": np.ones(8, np.float32) for i in (0, 1)}
    message = refused(tmp_path, weights=tensors() | extra)
    assert "2 that Llama does not read" in message
    assert all(n in message for n in extra)


def test_very_many_names_are_counted_by_layer(tmp_path):
    extra = {f"model.layers.{i}.extra.weight": np.ones(1, np.float32) for i in range(60)}
    assert "model.layers.*.extra.weight (60)" in refused(tmp_path, weights=tensors() | extra)


def test_buffers_that_old_checkpoints_hold_are_left_alone(tmp_path):
    names = ("rotary_emb.inv_freq", "slope_rate", "query_decay", "key_decay", "diagonal_decay")
    extra = {f"model.layers.0.self_attn.{name}": np.ones(4, np.float32) for name in names}
    assert load(tmp_path, weights=tensors() | extra).weights.notes == {}


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        (Q, (32, 31), ["[32, 31]: linear: axis K of weight", "it must be 32"]),
        ("model.layers.0.self_attn.k_proj.weight", (24, 32), ["[24, 32]", "write_pages"]),
        ("model.layers.1.self_attn.v_proj.weight", (15, 32), ["[15, 32]: 15 channels can't be cut into heads of 8"]),
        ("model.layers.1.mlp.up_proj.weight", (47, 32), ["[47, 32]", "silu_mul"]),
        ("model.layers.1.mlp.down_proj.weight", (31, 48), ["[31, 48]", "add"]),
        ("model.layers.1.input_layernorm.weight", (33,), ["[33]: rms_norm", "it must be 32"]),
        ("model.norm.weight", (32, 1), ["[32, 1]: rms_norm", "it must have 1 axes"]),
        ("model.embed_tokens.weight", (300, 16), ["[300, 16]", "rms_norm"]),
        ("lm_head.weight", (300, 33), ["lm_head.weight [300, 33]: linear"]),
    ],
)
def test_a_wrong_shape_is_named_with_what_it_should_be(tmp_path, name, shape, words):
    message = refused(tmp_path, CheckpointError, weights=tensors() | {name: np.ones(shape, np.float32)})
    assert name in message
    assert all(w in message for w in words), message
    assert "missing" not in message
    assert "does not read" not in message


def test_wrong_shapes_of_several_parts_are_said_at_once(tmp_path):
    wrong = {Q: np.ones((32, 31), np.float32), "model.layers.1.mlp.up_proj.weight": np.ones((47, 32), np.float32)}
    message = refused(tmp_path, CheckpointError, weights=tensors() | wrong)
    assert all(n in message for n in wrong)


def test_the_embedding_has_as_many_rows_as_the_config_says(tmp_path):
    message = refused(tmp_path, CheckpointError, config=CONFIG | {"vocab_size": 320})
    assert "model.embed_tokens.weight [300, 32]" in message
    assert "320" in message


@pytest.mark.parametrize("other", [False, True])
def test_a_tied_head_is_the_embedding_whatever_is_stored(tmp_path, other):
    tied = CONFIG | {"tie_word_embeddings": True}
    want = logits(load(tmp_path / "tied", tied, tensors(tied=True)), PROMPT)
    embedding = tensors()["model.embed_tokens.weight"]
    stored = tensors() | {"lm_head.weight": np.zeros_like(embedding) if other else embedding}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = load(tmp_path / "both", tied, stored)
    np.testing.assert_array_equal(logits(model, PROMPT), want)
    assert [str(w.message) for w in said] == list(model.weights.notes)
    assert len(said) == other


def test_an_untied_head_must_be_there(tmp_path):
    assert "1 missing: lm_head.weight" in refused(tmp_path, weights=tensors(tied=True))


def biases(layers, names="qkv"):
    size = {"q": 32, "k": 16, "v": 16, "o": 32}
    return {f"model.layers.{i}.self_attn.{n}_proj.bias": np.full(size[n], 0.5, np.float32) for i in layers for n in names}


def test_biases_are_read_if_they_are_there(tmp_path):
    plain = logits(load(tmp_path / "a"), PROMPT)
    assert not np.array_equal(logits(load(tmp_path / "b", weights=tensors() | biases((0, 1))), PROMPT), plain)


def test_biases_that_some_layers_lack_are_missing(tmp_path):
    message = refused(tmp_path, weights=tensors() | biases((1,), "k"))
    assert "1 missing: model.layers.0.self_attn.k_proj.bias" in message


def test_biases_that_the_config_demands_are_missing(tmp_path):
    message = refused(tmp_path, config=CONFIG | {"attention_bias": True}, weights=tensors() | biases((0, 1)))
    assert "2 missing: model.layers.0.self_attn.o_proj.bias, model.layers.1.self_attn.o_proj.bias" in message
    message = refused(tmp_path / "q", config=CONFIG | {"architectures": ["Qwen2ForCausalLM"]})
    assert "6 missing" in message


def test_an_unknown_architecture_lists_those_there_are(tmp_path):
    message = refused(tmp_path, UnknownArchitectureError, config=CONFIG | {"architectures": ["LlamaForCausalML"]})
    assert "'LlamaForCausalML' (nearest: LlamaForCausalLM)" in message
    assert all(n in message for n in ("Gemma3ForCausalLM", "Qwen2ForCausalLM", "SmolLM3ForCausalLM"))


def test_very_many_and_very_long_names_make_a_short_error(tmp_path):
    names = [f"{i}{'X' * 100_000}ForCausalLM" for i in range(100)]
    with pytest.raises(UnknownArchitectureError, match="no model is registered as '0X") as error:
        load(tmp_path, CONFIG | {"architectures": names})
    assert str(error.value).count("X" * 70) == 8
    assert len(str(error.value)) < 4000


def test_of_several_names_the_first_that_is_known_counts(tmp_path):
    model = load(tmp_path, CONFIG | {"architectures": ["NewLlama", "LlamaForCausalLM", "Qwen3ForCausalLM"]})
    assert type(model).__name__ == "Llama"


@pytest.mark.parametrize("names", ["absent", None, [], "LlamaForCausalLM", [1]])
def test_a_config_that_names_no_class(tmp_path, names):
    config = {n: v for n, v in (CONFIG | {"architectures": names}).items() if v != "absent"}
    assert "architectures is " in refused(tmp_path, ConfigError, config=config)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_act": "relu"}, "activation 'relu' is not one that Llama can have"),
        ({"layer_types": ["mamba", "full_attention"]}, "layer_types has mamba; layers of Llama are"),
        ({"head_dim": 7}, "rope turns 7"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quant_method is 'gptq'"),
        ({"text_config": 3}, "text_config is 3; it must be an object"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
    ],
)
def test_a_config_that_this_model_cannot_have(tmp_path, changes, words):
    message = refused(tmp_path, ConfigError, config=CONFIG | changes)
    assert words in message


def test_more_layers_than_there_are(tmp_path):
    message = refused(tmp_path, config=CONFIG | {"num_hidden_layers": 3})
    assert "9 missing" in message
    message = refused(tmp_path / "b", config=CONFIG | {"num_hidden_layers": 1})
    assert "9 that Llama does not read" in message


def test_a_dtype_that_no_op_reads(tmp_path):
    weights = tensors() | {Q: np.zeros((32, 32), ml_dtypes.float8_e4m3fn)}
    assert f"{Q} [32, 32] (float8_e4m3fn)" in refused(tmp_path, CheckpointError, weights=weights)
    kept = tensors() | {"model.norm.weight": tensors()["model.norm.weight"].astype(np.float64)}
    np.testing.assert_array_equal(logits(load(tmp_path / "a", weights=kept), PROMPT), logits(load(tmp_path / "b"), PROMPT))


def test_options_that_are_none(tmp_path):
    checkpoint = write(tmp_path)
    with pytest.raises(ArgumentError, match="numerics is 'quick'; it must be exact or fast"):
        load_model(checkpoint, numerics="quick")
    with pytest.raises(ConfigError, match="max_model_len is 0"):
        load_model(checkpoint, max_model_len=0)


def test_a_stray_file_beside_shards_is_not_read(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    write_sharded(tmp_path, [tensors()])
    write_safetensors(tmp_path / "model.safetensors", {"model.norm.weight": np.full(32, 9, np.float32)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = load_model(open_checkpoint(tmp_path))
    np.testing.assert_array_equal(model.top_weights.norm.weight.numpy(), tensors()["model.norm.weight"])
