"""Gemma 3n as the hub has it: beside towers, with weights of layers that have none, and with a second table of fewer rows."""

import json
import re

import numpy as np
import pytest

from tests.gguf_converter import convert
from tests.writers import write_safetensors
from vtcore.conformance.gate import answer, judge
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.conformance.runner import Request, Runner
from vtcore.dispatch import Dispatcher
from vtcore.errors import ConfigError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.formats.metadata import Metadata
from vtcore.models.gemma3n import Gemma3n
from vtcore.models.gguf_special import READERS
from vtcore.models.load import load_model
from vtcore.models.weights import Weights
from vtcore.providers import chain

GOLDEN = Golden.load(FOLDER / "gemma3n.json")


def stored(path, config, weights):
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    write_safetensors(path / "model.safetensors", weights)
    return load_model(open_checkpoint(path))


def as_on_the_hub():
    """config.json of version 4, in a wrapper; the text part's names as there."""
    ropes = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": None, "query_pre_attn_scalar": 256, "altup_lr_multiplier": 1.0}
    text = {n: v for n, v in GOLDEN.config.items() if n not in ("architectures", "rope_parameters")} | ropes
    weights = {n.replace("model.", "model.language_model.", 1): a for n, a in GOLDEN.weights().items()}
    for i in (3, 4):  # which share the keys and values of others
        base = f"model.language_model.layers.{i}.self_attn."
        weights |= {f"{base}{n}_proj.weight": np.ones((32, 64), np.float32) for n in "kv"} | {
            f"{base}k_norm.weight": np.ones(16, np.float32)
        }
    towers = {f"model.{n}.weight": np.ones(3, np.float32) for n in ("vision_tower.patch", "audio_tower.norm", "embed_vision.norm")}
    return {"architectures": ["Gemma3nForConditionalGeneration"], "text_config": text}, weights | towers


def test_the_text_part_of_a_wrapper(tmp_path):
    model = stored(tmp_path / "hub", *as_on_the_hub())
    assert judge(GOLDEN, answer(model, GOLDEN, chain(None))).passed
    assert list(model.weights.notes) == [
        "3 tensors of other parts are not read: audio_tower, embed_vision, vision_tower",
        "6 tensors of layers that share what other layers keep are not read",
    ]


def test_a_token_without_a_row_of_its_own_in_the_second_table(tmp_path):
    """It takes the first one."""
    known, name = 300, "model.embed_tokens_per_layer.weight"
    weights = GOLDEN.weights()
    filled = np.concatenate([weights[name][:known], np.repeat(weights[name][:1], 20, 0)])
    few = stored(tmp_path / "few", GOLDEN.config | {"vocab_size_per_layer_input": known}, weights | {name: weights[name][:known]})
    full = stored(tmp_path / "full", GOLDEN.config, weights | {name: filled})
    rows = []
    for model in (few, full):
        requests = [Request([5, 310, 7, 319, 299], 2)]
        Runner(model, Dispatcher(chain("portable"))).run(requests)
        rows.append(requests[0].rows)
    np.testing.assert_array_equal(*rows)


def config(**changes):
    return Gemma3n.read_config(Gemma3n.defaults | GOLDEN.config | changes)


def test_the_first_ten_of_many_layers_are_sparse():
    many = {"num_hidden_layers": 12, "layer_types": None, "intermediate_size": 96, "activation_sparsity_pattern": None}
    assert config(**many).activation_sparsity_pattern == [0.95] * 10 + [0.0] * 2
    assert config(**many | {"num_hidden_layers": 10}).activation_sparsity_pattern == [0.0] * 10
    assert [i for i, kind in enumerate(config(**many).kinds) if kind == "full_attention"] == [4, 9]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation_sparsity_pattern": [0.95] * 4}, "0.95, 0.95, 0.95] (4 entries); it must be a list of 5 numbers"),
        ({"activation_sparsity_pattern": [1.0] * 5}, "numbers from 0 to below 1"),
        ({"activation_sparsity_pattern": 0.95}, "activation_sparsity_pattern is 0.95"),
        ({"intermediate_size": [96] * 6}, "96, 96, 96] (6 entries); it must be a list of 5 whole numbers"),
        ({"intermediate_size": [96, 96, 96, 96, "96"]}, "a list of 5 whole numbers"),
        ({"altup_active_idx": 4}, "altup_active_idx is 4; it must be a whole number from 0 to 3"),
        ({"altup_num_inputs": 1}, "altup_num_inputs is 1"),
        ({"altup_correct_scale": 1}, "altup_correct_scale is 1; it must be true or false"),
        ({"hidden_activation": "gelu"}, "hidden_activation is 'gelu'; Gemma3n is written for 'gelu_pytorch_tanh' alone"),
        ({"vocab_size_per_layer_input": 0}, "vocab_size_per_layer_input is 0"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        config(**changes)


def test_metadata_of_old_files(tmp_path):
    """The number of shared layers with a point."""
    m = Metadata({"gemma3n.attention.shared_kv_layers": 2.0}, "old.gguf")
    assert READERS["gemma3n"]({}, m, Weights({}))["num_kv_shared_layers"] == 2
    path = convert(GOLDEN, tmp_path / "new.gguf")
    assert load_model(open_checkpoint(path)).config.num_kv_shared_layers == 2


@pytest.mark.parametrize("bars", [[1.0, "x"], 3.0])
def test_bars_that_are_no_numbers(bars):
    with pytest.raises(ConfigError, match=r"activation_sparsity_scale' is .*; a list of numbers is needed"):
        READERS["gemma3n"]({}, Metadata({"gemma3n.activation_sparsity_scale": bars}, "bad.gguf"), Weights({}))
