"""Opening a model from a directory or a file."""

import json

import numpy as np
import pytest

from tests.writers import write_gguf, write_safetensors, write_sharded
from vtcore.errors import ConfigError, GGUFError, ModelNotFoundError, SafetensorsError
from vtcore.formats.checkpoint import RawTensor, open_checkpoint

WEIGHTS = {"w": np.ones((2, 3), np.float32)}
CONFIG = {"model_type": "llama", "rope_scaling": None}


@pytest.fixture
def model(tmp_path):
    """A directory with safetensors and its two JSON files."""
    write_safetensors(tmp_path / "model.safetensors", WEIGHTS)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    return tmp_path


def test_safetensors(model):
    checkpoint = open_checkpoint(model)
    assert (checkpoint.kind, checkpoint.path, checkpoint.directory) == ("safetensors", model, model)
    assert (checkpoint.config, checkpoint.generation_config) == (CONFIG, {"eos_token_id": [1, 2]})
    assert len(checkpoint.metadata) == 0
    assert isinstance(checkpoint.tensors["w"], RawTensor)
    assert checkpoint.files == (model / "model.safetensors",)
    assert checkpoint.nbytes == 24
    assert open_checkpoint(str(model)).path == model


def test_shards_without_generation_config(tmp_path):
    write_sharded(tmp_path, [WEIGHTS, {"v": np.ones(1, np.float32)}])
    (tmp_path / "config.json").write_text("{}")
    checkpoint = open_checkpoint(tmp_path)
    assert (checkpoint.generation_config, set(checkpoint.tensors), len(checkpoint.files)) == ({}, {"w", "v"}, 2)


@pytest.mark.parametrize("name", ["model.gguf", "blob"])
def test_a_gguf_file(tmp_path, name):
    path = write_gguf(tmp_path / name, {"general.architecture": "llama"}, WEIGHTS)
    checkpoint = open_checkpoint(path)
    assert (checkpoint.kind, checkpoint.path, checkpoint.directory, checkpoint.files) == ("gguf", path, tmp_path, (path,))
    assert (checkpoint.config, checkpoint.generation_config) == ({}, {})
    assert checkpoint.metadata.text("general.architecture") == "llama"
    assert checkpoint.tensors["w"].load().shape == (2, 3)


def test_a_directory_with_one_gguf_file(tmp_path):
    path = write_gguf(tmp_path / "model.gguf", {}, WEIGHTS)
    checkpoint = open_checkpoint(tmp_path)
    assert (checkpoint.kind, checkpoint.path, checkpoint.directory, checkpoint.files) == ("gguf", tmp_path, tmp_path, (path,))


def test_a_directory_with_several_gguf_files(tmp_path):
    for name in ("b.gguf", "a.gguf"):
        write_gguf(tmp_path / name, {}, WEIGHTS)
    with pytest.raises(ModelNotFoundError, match=r"2 \.gguf files \(a\.gguf, b\.gguf\): give the path"):
        open_checkpoint(tmp_path)


def test_safetensors_come_before_gguf(model):
    write_gguf(model / "q.gguf", {}, WEIGHTS)
    with pytest.warns(UserWarning, match=r"q\.gguf is ignored; give its path"):
        assert open_checkpoint(model).kind == "safetensors"


def test_nothing_there(tmp_path):
    for path in (tmp_path / "absent", tmp_path / "absent.gguf", tmp_path / ("x" * 5000), tmp_path / "a\0b"):
        with pytest.raises(ModelNotFoundError):
            open_checkpoint(path)


def test_an_empty_directory_says_what_was_looked_for(tmp_path):
    with pytest.raises(ModelNotFoundError) as caught:
        open_checkpoint(tmp_path)
    for word in (str(tmp_path), "model.safetensors.index.json", "model.safetensors", ".gguf", "config.json"):
        assert word in str(caught.value)


def test_weights_in_a_form_that_is_not_read(tmp_path):
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(ModelNotFoundError, match=r"pytorch_model\.bin can't be read: convert the model to safetensors"):
        open_checkpoint(tmp_path)


def test_a_file_of_another_kind(model):
    for name in ("model.safetensors", "config.json"):
        with pytest.raises(ModelNotFoundError, match=f"{name} is no GGUF file: give one, or a directory"):
            open_checkpoint(model / name)


def test_a_malformed_gguf_file(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF\0")
    for path in (tmp_path, tmp_path / "m.gguf"):
        with pytest.raises(GGUFError, match=r"m\.gguf"):
            open_checkpoint(path)


def test_a_malformed_safetensors_file(model):
    (model / "model.safetensors").write_bytes(b"")
    with pytest.raises(SafetensorsError, match=r"model\.safetensors"):
        open_checkpoint(model)


def test_no_config(model):
    (model / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json is missing"):
        open_checkpoint(model)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", r"holds \[1\]; a JSON object is needed"),
        ("null", "a JSON object is needed"),
        ("", "not JSON: .* at line 1, column 1"),
        ('{\n "a": tru\n}', "not JSON: .* at line 2, column 7"),
        ('{"a": 1, "b": 2, "a": 3}', "key 'a' comes twice"),
        ('{"x": {"a": 1, "a": 1}}', "key 'a' comes twice"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64 deep"),
        ('{"a":' * 5000 + "1" + "}" * 5000, "nested more than 64 deep"),
        ("{" + " " * (64 << 20) + "}", "67108866 bytes"),
    ],
)
def test_malformed_json(model, name, text, words):
    (model / name).write_text(text)
    with pytest.raises(ConfigError, match=rf"{name}.*{words}"):
        open_checkpoint(model)


def test_json_that_is_not_utf8(model):
    (model / "config.json").write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(ConfigError, match=r"config\.json is not UTF-8: .* at byte 7"):
        open_checkpoint(model)


def test_json_up_to_the_bounds(model):
    (model / "config.json").write_text('{"a":' * 64 + "1e999" + "}" * 64)
    config = open_checkpoint(model).config
    for _ in range(64):
        config = config["a"]
    assert config == float("inf")
