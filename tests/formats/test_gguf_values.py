"""The key-value section of GGUF files: values of every kind, decoded when asked for, and refused with which words."""

import struct

import pytest

from tests.formats.refusals import refused
from tests.writers import Typed, write_gguf
from vtcore.errors import GGUFError
from vtcore.formats.gguf import read_gguf


def test_metadata_of_every_kind(tmp_path):
    values = {
        "u8": 200, "i8": -100, "u16": 60000, "i16": -30000, "u32": 4000000000, "i32": -2000000000, "f32": 0.5, "u64": 1 << 63,
        "i64": -(1 << 62), "f64": 0.1, "bool": True, "str": "naïve ▁",
    }  # fmt: skip
    lists = {f"[{k}]": [v, v] for k, v in values.items()} | {"[str]": ["", "a", "é" * 300], "[[i32]]": [[1, 2], [], [3]], "[u8]": []}
    written = {k: Typed(k, v) for k, v in (values | lists).items()}
    metadata = read_gguf(write_gguf(tmp_path / "m.gguf", written)).metadata
    assert dict(metadata) == values | lists
    assert {k: type(v) for k, v in metadata.items()} == {k: type(v) for k, v in (values | lists).items()}


def test_a_key_that_comes_twice(write):
    entries = [("general.architecture", "llama"), ("general.architecture", "gpt2")]
    refused(write(entries, []), "'general.architecture'", "twice")


def test_bool_arrays_and_long_integer_arrays(tmp_path):
    pattern, heads = [True, True, False, True, True, False], [8, 1] * 44
    written = {"pattern": pattern, "heads": Typed("[i32]", heads)}
    metadata = read_gguf(write_gguf(tmp_path / "m.gguf", written)).metadata
    assert metadata.booleans("pattern") == pattern
    assert metadata.per_layer("heads", 88) == heads


@pytest.mark.parametrize("value", [Typed("[bool]", [1, 2, 0]), Typed("bool", 255)])
def test_a_boolean_is_0_or_1(write, value):
    refused(write([("flag", value)], []), "'flag'", "0 or 1 is allowed")


@pytest.mark.parametrize("kind", [4, 7, 8, 9])
@pytest.mark.parametrize("n", [3, 1 << 40, 1 << 61, (1 << 64) - 1])
def test_absurd_array_lengths(tmp_path, kind, n):
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, kind, n))
    refused(path, "'k'")


@pytest.mark.parametrize("n", [100, 1 << 40, 1 << 63, (1 << 64) - 8, (1 << 64) - 1])
def test_absurd_string_lengths(tmp_path, n):
    path = tmp_path / "m.gguf"
    array = struct.pack("<IIQ", 9, 8, 2) + struct.pack("<Q", n) + bytes(40)
    for value in (array, struct.pack("<IQ", 8, n) + bytes(40)):
        path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + value)
        refused(path, "'k'")


@pytest.mark.parametrize(("kind", "words"), [(13, "value type 13 is unknown"), (1 << 31, "value type 2147483648")])
def test_unknown_kinds(tmp_path, kind, words):
    path = tmp_path / "m.gguf"
    for value in (struct.pack("<I", kind), struct.pack("<IIQ", 9, kind, 0)):
        path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + value + bytes(20))
        refused(path, "'k'", words)


def test_arrays_nested_too_deep(write):
    deep = [1]
    for _ in range(7):
        deep = [deep]
    assert read_gguf(write([("k", Typed("[" * 8 + "u8" + "]" * 8, deep))], [])).metadata["k"] == deep
    refused(write([("k", Typed("[" * 9 + "u8" + "]" * 9, [deep]))], []), "'k'", "more than 8 deep")


def test_too_many_arrays_in_arrays(write):
    refused(write([("k", Typed("[[u8]]", [[]] * 70000))], []), "'k'", "65536")


def test_strings_that_are_not_utf8(write):
    metadata = read_gguf(write([("a", Typed("str", b"\xff")), ("b", Typed("[str]", ["x", b"y\xc3"])), ("c", "ok")], [])).metadata
    assert metadata["c"] == "ok"
    with pytest.raises(GGUFError, match=r"key 'a': .*not UTF-8"):
        metadata["a"]
    with pytest.raises(GGUFError, match=r"key 'b': string 1 of 2 is not UTF-8.*at its byte 1"):
        metadata["b"]


def test_a_key_that_is_not_utf8(write):
    refused(write([(b"\xc3(", 1)], []), "key 1 of 1", "not UTF-8")


def test_arrays_are_decoded_once_and_only_when_asked_for(write):
    metadata = read_gguf(write([("big", ["a"] * 1000), ("bad", Typed("[str]", [b"\xff"]))], [])).metadata
    assert "bad" in metadata
    assert len(metadata) == 2
    assert metadata["big"] is metadata["big"]
