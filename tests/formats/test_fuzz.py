"""Any change to a well-formed file either loads or raises CheckpointError, never anything else."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.writers import Typed, write_gguf, write_safetensors, write_sharded
from vtcore.errors import CheckpointError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.quant import Blocks

EXAMPLES = 200
INTERESTING = [0, 1, 4, 5, 7, 8, 9, 32, 42, 127, 255, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, 1 << 63, (1 << 64) - 1]
fuzz = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@st.composite
def changes(draw: st.DrawFn, original: bytes) -> bytes:
    """A file with one to three changes: numbers or bytes overwritten, parts cut out, doubled or moved, the end cut off."""
    raw = bytearray(original)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(raw) - 1, 0)))
        end = at + draw(st.integers(0, 24))
        kind = draw(st.sampled_from(["number", "bytes", "flip", "cut", "double", "end"]))
        if kind == "number":
            width = draw(st.sampled_from([1, 4, 8]))
            raw[at : at + width] = (draw(st.sampled_from(INTERESTING)) % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == "bytes":
            raw[at:end] = draw(st.binary(max_size=24))
        elif kind == "flip" and raw:
            raw[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del raw[at:end]
        elif kind == "double":
            raw[end:end] = raw[at:end]
        else:
            del raw[at:]
    return bytes(raw)


def use(path: Path) -> None:
    """Open a checkpoint and look at everything in it, or be refused."""
    with suppress(CheckpointError):
        checkpoint = open_checkpoint(path)
        dict(checkpoint.metadata)
        for tensor in checkpoint.tensors.values():
            loaded = tensor.load()
            values = loaded.dequantize() if isinstance(loaded, Blocks) else loaded
            assert values.shape == tensor.shape


def good_gguf(path: Path) -> bytes:
    metadata: dict[str, Any] = {
        "general.architecture": "llama", "general.alignment": 32, "n": 3, "x": 0.5, "flags": [True, False], "tokens": ["a", "bc", "é"],
        "types": [1, 2, 3], "nested": Typed("[[u8]]", [[1, 2], [3]]), "split.count": Typed("u16", 1),
    }  # fmt: skip
    tensors = {"a": np.ones((2, 3), np.float32), "q": ((2, 32), 2, bytes(36)), "k": ((1, 256), 12, bytes(144)), "s": np.array(1, np.int8)}
    return write_gguf(path, metadata, tensors).read_bytes()


@fuzz
@given(st.data())
def test_gguf(tmp_path, data):
    path = tmp_path / "m.gguf"
    path.write_bytes(data.draw(changes(good_gguf(path))))
    use(path)


@fuzz
@given(st.data())
def test_safetensors(tmp_path, data):
    path = tmp_path / "model.safetensors"
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.array([True]), "e": np.zeros(0, np.float16), "s": np.array(1, np.int64)}
    write_safetensors(path, arrays, {"format": "pt"})
    (tmp_path / "config.json").write_text("{}")
    path.write_bytes(data.draw(changes(path.read_bytes())))
    use(tmp_path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@fuzz
@given(st.dictionaries(st.text(max_size=4) | st.just("__metadata__"), JSON, max_size=4), st.binary(max_size=16))
def test_safetensors_headers_of_any_shape(tmp_path, header, data):
    raw = json.dumps(header).encode()
    (tmp_path / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    (tmp_path / "config.json").write_text("{}")
    use(tmp_path)


@pytest.mark.filterwarnings("ignore:.*no part of the model")
@pytest.mark.parametrize("name", ["model.safetensors.index.json", "config.json", "generation_config.json"])
@fuzz
@given(st.data())
def test_json_files(tmp_path, name, data):
    write_sharded(tmp_path, [{"a": np.ones(2, np.float32)}, {"b": np.ones(2, np.float32)}])
    for file in ("config.json", "generation_config.json"):
        (tmp_path / file).write_text('{"model_type": "llama", "eos_token_id": [1, 2], "x": {"y": null, "z": -1.5e3}}')
    (tmp_path / name).write_bytes(data.draw(changes((tmp_path / name).read_bytes()) | JSON.map(lambda v: json.dumps(v).encode())))
    use(tmp_path)
