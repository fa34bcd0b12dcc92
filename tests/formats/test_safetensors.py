"""Safetensors: files, shards, and what is refused with which words."""

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.writers import SAFETENSORS, safetensors_bytes, write_safetensors, write_sharded
from vtcore.errors import CheckpointError, SafetensorsError
from vtcore.formats.safetensors import DTYPES, INDEX, read_directory, read_file


def line(shape: object, begin: object, end: object, dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def refused(path: Path, *words: str) -> None:
    with pytest.raises(SafetensorsError) as caught:
        read_file(path)
    for word in (path.name, *words):
        assert word in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors"


def any_values(dtype: np.dtype) -> np.ndarray:
    raw = np.random.default_rng(0).integers(0, 2 if dtype.kind == "b" else 256, 6 * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype).reshape(2, 3)


def test_every_dtype(path):
    arrays = {name: any_values(dtype) for name, dtype in DTYPES.items() if dtype.name in SAFETENSORS}
    assert len(arrays) == 16
    tensors = read_file(write_safetensors(path, arrays))
    for name, array in arrays.items():
        got = tensors[name].load()
        assert got.dtype == tensors[name].dtype == array.dtype == DTYPES[name]
        assert got.shape == tensors[name].shape == (2, 3)
        assert got.tobytes() == array.tobytes()
        assert tensors[name].source == str(path)


def test_files_of_the_safetensors_package(path):
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array(2.5), "c": np.ones((0, 4), np.int8)}
    save_file(arrays, path, metadata={"format": "pt"})
    tensors = read_file(path)
    assert set(tensors) == set(arrays)
    assert all(np.array_equal(tensors[n].load(), a) and tensors[n].shape == a.shape for n, a in arrays.items())


def test_loading_copies_nothing_that_is_aligned(path):
    write_safetensors(path, {"b": np.ones(1, np.uint8), "a": np.arange(3, dtype=np.float32)})
    tensors = read_file(path)
    assert np.shares_memory(tensors["b"].load(), tensors["b"].data)
    unaligned = tensors["a"].load()
    assert unaligned.flags.aligned
    assert unaligned.tolist() == [0, 1, 2]
    aligned = read_file(write_safetensors(path, {"a": np.arange(3, dtype=ml_dtypes.bfloat16)}))["a"]
    assert np.shares_memory(aligned.load(), aligned.data)
    assert not aligned.load().flags.writeable


def test_zero_sizes_and_scalars(path):
    path.write_bytes(safetensors_bytes({"e": line([0], 0, 0), "a": line([1], 0, 4), "s": line([], 4, 8)}, struct.pack("<2f", 1, 2)))
    tensors = read_file(path)
    assert tensors["e"].load().shape == (0,)
    assert tensors["a"].load().tolist() == [1]
    assert (tensors["s"].load().shape, float(tensors["s"].load())) == ((), 2)


def test_a_file_without_tensors(path):
    assert read_file(write_safetensors(path, {}, {"format": "pt"})) == {}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (line([1000, 1000], 0, 4), ("takes 4000000 bytes", "span 4")),
        (line([1], 4, 0), ("[4, 0]", "begin <= end")),
        (line([8589934592, 8589934592], 0, 0), ("over 2**56 elements",)),
        (line([1 << 62, 0], 0, 0), ("over 2**56 elements",)),
        (line([-1], 0, 4), ("negative size",)),
        (line([1], 0, 0), ("takes 4 bytes", "span 0")),
        (line([1], -4, 0), ("[-4, 0]",)),
        (line([1], 0, 4.0), ("[0, 4.0]",)),
        (line([True], 0, 4), ("[True]",)),
        (line(1, 0, 4), ("shape is 1",)),
        (line([1] * 33, 0, 4), ("a list of 33 values", "at most 32")),
        (line([1], 0, 4, "F12"), ("'F12'", "BF16")),
        (line([1], 0, 4, ["F32"]), ("['F32']",)),
        (line([10**4000], 0, 4), ("over 2**56 elements",)),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0]}, ("[0]",)),
        ({"dtype": "F32", "shape": [1]}, ("data_offsets is needed",)),
        ([], ("data_offsets is needed",)),
        (None, ("None",)),
    ],
)
def test_impossible_tensors(path, entry, words):
    path.write_bytes(safetensors_bytes({"t": entry}, bytes(4)))
    refused(path, "'t'", *words)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"a": line([1], 0, 4), "b": line([1], 2, 6)}, ("'b'", "overlaps 'a'")),
        ({"a": line([1], 0, 4), "b": line([1], 8, 12)}, ("'b'", "gap behind 'a'")),
        ({"a": line([2], 4, 12)}, ("'a' begins at 4",)),
        ({"a": line([2], 0, 8)}, ("'a' ends at 8", "12 bytes")),
        ({"a": line([4], 0, 16)}, ("'a' ends at 16", "12 bytes")),
        ({"a": line([3], 0, 12), "b": line([3], 0, 12)}, ("'b'", "overlaps 'a'")),
        ({}, ("the header ends at 0", "12 bytes")),
    ],
)
def test_tensors_cover_the_data(path, entries, words):
    path.write_bytes(safetensors_bytes(entries, bytes(12)))
    refused(path, *words)


@pytest.mark.parametrize("size", [1, 100, 1 << 40, (1 << 64) - 1])
def test_a_header_longer_than_the_file(path, size):
    path.write_bytes(struct.pack("<Q", size))
    refused(path, f"{size} bytes")


@pytest.mark.parametrize("raw", [b"", b"\0" * 7])
def test_a_file_too_short(path, raw):
    path.write_bytes(raw)
    refused(path, f"{len(raw)} bytes")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("", ("not JSON",)),
        ("[]", ("no JSON object",)),
        ("{" * 100, ("not JSON", "column 2")),
        ("[" * 100_000, ("nested",)),
        ('{"t":' * 70 + "0" + "}" * 70, ("nested more than 64 deep",)),
        ("[" * (1 << 20) + "[", ("1048577 brackets",)),
        ("[" + "0," * (1 << 22) + "0,0]", ("4194305 commas",)),
        ('{"t":' + "9" * 5000 + "}", ("number",)),
        ('{"t": 1, "t": 2}', ("'t'", "twice")),
        (b'{"\xff": 1}', ("not UTF-8", "byte 2")),
        ('{"__metadata__": {"a": 1}}', ("'__metadata__'",)),
        ('{"__metadata__": []}', ("'__metadata__'",)),
    ],
)
def test_malformed_headers(path, header, words):
    path.write_bytes(safetensors_bytes(header))
    refused(path, *words)


def test_a_boolean_is_0_or_1(path):
    path.write_bytes(safetensors_bytes({"t": line([2], 0, 2, "BOOL")}, b"\1\2"))
    with pytest.raises(CheckpointError, match="tensor 't' holds a boolean that is 2"):
        read_file(path)["t"].load()


def full(value: float) -> np.ndarray:
    return np.full(2, value, np.float32)


def test_shards(tmp_path):
    write_sharded(tmp_path, [{"a": full(1), "b": full(2)}, {"c": full(3)}])
    tensors, files = read_directory(tmp_path)
    assert {n: t.load()[0] for n, t in tensors.items()} == {"a": 1, "b": 2, "c": 3}
    assert [f.name for f in files] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def test_a_stray_file_is_ignored_with_a_warning(tmp_path):
    write_sharded(tmp_path, [{"model.norm.weight": full(1)}, {"b": full(2)}])
    write_safetensors(tmp_path / "model.safetensors", {"model.norm.weight": full(9)})
    with pytest.warns(UserWarning, match=r"ignored, .*: model\.safetensors$"):
        tensors, files = read_directory(tmp_path)
    assert tensors["model.norm.weight"].load()[0] == 1
    assert len(files) == 2


def test_missing_shards_are_named(tmp_path):
    write_sharded(tmp_path, [{"a": full(1)}, {"b": full(2)}, {"c": full(3)}])
    for i in (2, 3):
        (tmp_path / f"model-0000{i}-of-00003.safetensors").unlink()
    with pytest.raises(SafetensorsError, match=r"2 files that are missing: model-00002-of-00003\.safetensors, model-00003"):
        read_directory(tmp_path)


def test_the_index_decides_between_shards(tmp_path):
    index = write_sharded(tmp_path, [{"a": full(1), "x": full(1)}, {"b": full(2), "x": full(2)}])
    assert read_directory(tmp_path)[0]["x"].load()[0] == 2
    written = json.loads(index.read_text())
    del written["weight_map"]["x"]
    index.write_text(json.dumps(written))
    with pytest.raises(SafetensorsError, match=r"'x' is in .*00001.* and model-00002-.*doesn't say which"):
        read_directory(tmp_path)


def test_a_tensor_that_only_its_shard_knows(tmp_path):
    index = write_sharded(tmp_path, [{"a": full(1), "x": full(3)}])
    index.write_text(json.dumps({"weight_map": {"a": "model-00001-of-00001.safetensors"}}))
    assert read_directory(tmp_path)[0]["x"].load()[0] == 3


def test_tensors_that_the_shards_lack(tmp_path):
    index = write_sharded(tmp_path, [{"a": full(1)}])
    index.write_text(json.dumps({"weight_map": dict.fromkeys("abc", "model-00001-of-00001.safetensors")}))
    with pytest.raises(SafetensorsError, match=r"names 2 tensors that their files lack: b \(model-00001.*c \(model"):
        read_directory(tmp_path)


@pytest.mark.parametrize(
    "index",
    [
        {},
        {"weight_map": {}},
        {"weight_map": []},
        *({"weight_map": {"a": f}} for f in (1, None, "", "x", "../x.safetensors", "/x.safetensors", "a\\x.safetensors", "\0.safetensors")),
    ],
)
def test_malformed_indices(tmp_path, index):
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(SafetensorsError, match=f"{INDEX}.*('weight_map'|'a' is mapped to)"):
        read_directory(tmp_path)


def test_one_file_without_index(tmp_path):
    write_safetensors(tmp_path / "other.safetensors", {"a": full(1)})
    assert list(read_directory(tmp_path)[0]) == ["a"]
    write_safetensors(tmp_path / "more.safetensors", {"a": full(2)})
    with pytest.raises(SafetensorsError, match=r"2 \.safetensors files \(more\.safetensors, other\.safetensors\)"):
        read_directory(tmp_path)
    write_safetensors(tmp_path / "model.safetensors", {"a": full(3)})
    with pytest.warns(UserWarning, match=r"more\.safetensors, other\.safetensors"):
        assert read_directory(tmp_path)[0]["a"].load()[0] == 3


def test_a_directory_without_safetensors(tmp_path):
    assert read_directory(tmp_path) is None
