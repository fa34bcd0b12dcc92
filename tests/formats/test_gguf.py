"""GGUF files: what is read, and what is refused with which words."""

import struct
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest

from tests.formats.refusals import refused
from tests.writers import Info, Quantised, write_gguf
from vtcore.errors import ConfigError
from vtcore.formats.gguf import read_gguf
from vtcore.quant import FORMATS, Blocks

ONE = Info("t", (4,), 0, 0)
DATA = np.arange(4, dtype=np.float32).tobytes()


def test_tensors_of_every_dtype(tmp_path):
    rng = np.random.default_rng(0)
    dtypes = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.int16, np.int32, np.int64]
    dense = {np.dtype(d).name: rng.integers(-9, 9, (2, 3, 5)).astype(d) for d in dtypes}
    blocks = {f.name: rng.integers(0, 256, (3, 2 * f.nbytes), dtype=np.uint8) for f in FORMATS.values() if f.ggml_type is not None}
    quantised = {n: Quantised((3, 2 * FORMATS[n].block), FORMATS[n].ggml_type, raw) for n, raw in blocks.items()}
    tensors = read_gguf(write_gguf(tmp_path / "m.gguf", {}, dense | quantised)).tensors
    assert list(tensors) == [*dense, *quantised]
    for name, array in dense.items():
        got = tensors[name].load()
        assert tensors[name].shape == (2, 3, 5)
        assert got.dtype == array.dtype == tensors[name].dtype
        assert np.array_equal(got, array)
    for name, raw in blocks.items():
        got = tensors[name].load()
        assert isinstance(got, Blocks)
        assert (got.dtype, got.shape) == (FORMATS[name], (3, 2 * FORMATS[name].block))
        assert np.array_equal(got.data, raw)
        assert tensors[name].nbytes == raw.nbytes


def package_file(path: Path, **options) -> Path:
    """A file, or the parts of one, by the gguf package's writer."""
    writer = gguf.GGUFWriter(path, "llama", **options)
    writer.add_block_count(2)
    writer.add_token_list(["<s>", "▁a", "é"])
    writer.add_bool("flag", True)
    for i in range(3):
        writer.add_tensor(f"dense.{i}", np.full((2, 3), i, np.float32))
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
    writer.add_tensor("quantised", gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("parts", [0, 2])
def test_files_of_the_gguf_package(tmp_path, parts):
    path = package_file(tmp_path / "m.gguf", split_max_tensors=parts)
    read = read_gguf(tmp_path / "m-00001-of-00002.gguf" if parts else path)
    assert len(read.files) == (parts or 1)
    assert read.metadata.texts("tokenizer.ggml.tokens") == ["<s>", "▁a", "é"]
    assert (read.metadata.integer("llama.block_count"), read.metadata.boolean("flag")) == (2, True)
    assert [read.tensors[f"dense.{i}"].load().tolist() for i in range(3)] == [[[i] * 3] * 2 for i in range(3)]
    assert np.abs(read.tensors["quantised"].load().dequantize() - np.linspace(-1, 1, 64).reshape(2, 32)).max() < 1 / 200


def test_loading_copies_nothing(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", {}, {"a": np.ones((2, 3), np.float32), "q": ((2, 32), 2, bytes(36))})
    tensors = read_gguf(path).tensors
    a, q = tensors["a"].load(), tensors["q"].load()
    assert np.shares_memory(a, tensors["a"].data)
    assert np.shares_memory(q.data, tensors["q"].data)
    assert not a.flags.writeable
    assert tensors["a"].source == str(path)


@pytest.mark.parametrize("version", [2, 3])
def test_versions_that_are_read(write, version):
    assert np.array_equal(read_gguf(write([], [ONE], DATA, version=version)).tensors["t"].load(), np.arange(4))


@pytest.mark.parametrize(("version", "words"), [(0, "version 0 is unknown"), (1, "version 1, with 32-bit"), (4, "version 4 is unknown")])
def test_versions_that_are_not(write, version, words):
    refused(write([], [ONE], DATA, version=version), words)


def test_a_big_endian_file_is_named_as_such(write):
    refused(write([], [Info("t", (2,), 0, 0)], struct.pack(">2f", 1, 2), order=">"), "big-endian")


@pytest.mark.parametrize(("raw", "words"), [(b"", "b''"), (b"GGU", "b'GGU'"), (b"ggjt" + bytes(40), "b'ggjt'"), (b"GGUF\3", "cut short")])
def test_other_files(tmp_path, raw, words):
    path = tmp_path / "other.gguf"
    path.write_bytes(raw)
    refused(path, words)


def test_files_that_are_none(tmp_path):
    refused(tmp_path / "absent.gguf", "No such file")
    (tmp_path / "folder.gguf").mkdir()
    refused(tmp_path / "folder.gguf", "not a regular file")


@pytest.mark.parametrize("n_dims", [5, 0xFFFFFFFF])
def test_too_many_dimensions(write, n_dims):
    dims = (1,) * 5 if n_dims == 5 else ()
    refused(write([], [Info("t", dims, 0, 0, n_dims=n_dims)]), "'t'", f"n_dims is {n_dims}", "at most 4")


def test_up_to_four_dimensions(write):
    infos = [Info(f"t{n}", (1, 2, 3, 4)[:n], 24, 32 * n) for n in range(5)]
    tensors = read_gguf(write([], infos, bytes(160))).tensors
    assert [t.shape for t in tensors.values()] == [(), (1,), (2, 1), (3, 2, 1), (4, 3, 2, 1)]
    assert [t.load().shape for t in tensors.values()] == [t.shape for t in tensors.values()]


@pytest.mark.parametrize("alignment", [8, 24, 32, 64])
def test_alignment_is_obeyed(tmp_path, alignment):
    arrays = {"a": np.arange(3, dtype=np.float32), "b": np.arange(5, dtype=np.float32)}
    tensors = read_gguf(write_gguf(tmp_path / "m.gguf", {"general.alignment": alignment}, arrays)).tensors
    assert all(np.array_equal(tensors[n].load(), a) for n, a in arrays.items())


@pytest.mark.parametrize("alignment", [0, 3, 12])
def test_alignment_that_is_not_allowed(write, alignment):
    path = write([("general.alignment", alignment)], [ONE], DATA)
    with pytest.raises(ConfigError, match=f"'general.alignment' is {alignment}; a positive multiple of 8"):
        read_gguf(path)


def test_alignment_of_another_type(write):
    path = write([("general.alignment", "32")], [ONE], DATA)
    with pytest.raises(ConfigError, match=r"'general\.alignment' is '32'; an integer"):
        read_gguf(path)


def test_alignment_past_the_end(write):
    refused(write([("general.alignment", 1 << 30)], [ONE], DATA), "'t'", "1073741824")


def test_a_tensor_that_comes_twice(write):
    refused(write([], [Info("x", (4,), 0, 0), Info("x", (4,), 0, 32)], bytes(48)), "'x'", "twice")


@pytest.mark.parametrize(("type_id", "words"), [(42, "type 42 is unknown"), (36, "36 (IQ4_NL_4_4) is retired"), (4, "4 (Q4_2) is retired")])
def test_unknown_and_retired_types(write, type_id, words):
    refused(write([], [Info("blk.0.ffn_down.weight", (256, 1), type_id, 0)], bytes(256)), "'blk.0.ffn_down.weight'", words)


@pytest.mark.parametrize("dims", [(160, 1), (), (1,)])
def test_a_row_is_whole_blocks(write, dims):
    n = dims[0] if dims else 1
    refused(write([], [Info("t", dims, 12, 0)], bytes(256)), "'t'", f"{n} not a multiple of 256", "Q4_K")


def test_zero_sizes(write):
    tensors = read_gguf(write([], [Info("e", (0, 3), 0, 0), Info("q", (0, 3), 12, 0), ONE], DATA)).tensors
    assert tensors["e"].load().shape == (3, 0)
    assert tensors["q"].load().shape == (3, 0)
    assert tensors["t"].load().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (Info("t", (5,), 0, 0), ("bytes 64 to 84", "80")),
        (Info("t", (4,), 0, 32), ("bytes 96 to 112",)),
        (Info("t", (4,), 0, (1 << 64) - 32), ("bytes",)),
        (Info("t", (4,), 0, 4), ("offset 4", "alignment 32")),
        (Info("t", (1 << 63, 1 << 63, 1 << 63, 1 << 63), 0, 0), ("over 2**56 elements",)),
        (Info("t", (1 << 62, 0), 0, 0), ("over 2**56 elements",)),
        (Info("t", (1 << 40,), 0, 0), ("cut short",)),
        (Info(b"\xff", (4,), 0, 0), ("tensor 1 of 1", "not UTF-8")),
        (Info("n" * 70000, (4,), 0, 0), ("tensor 1 of 1", "at most 65535")),
    ],
)
def test_impossible_tensors(write, info, words):
    refused(write([], [info], DATA), *words)


def test_tensors_lie_apart(write):
    infos = [Info("a", (4,), 0, 32), Info("b", (16,), 0, 0)]
    refused(write([], infos, bytes(96)), "'a'", "inside tensor 'b'", "ends at 64")


def test_a_file_cut_anywhere(tmp_path):
    whole = write_gguf(tmp_path / "whole.gguf", {"a": 1, "s": ["x", "y"]}, {"t": np.ones(4, np.float32)}).read_bytes()
    path = tmp_path / "cut.gguf"
    for n in range(len(whole) - 16):  # the last 16 bytes pad the last tensor
        path.write_bytes(whole[:n])
        refused(path)


@pytest.mark.parametrize("count", ["n_tensors", "n_entries"])
@pytest.mark.parametrize("n", [1 << 17, 1 << 32, (1 << 64) - 1])
def test_absurd_counts(write, count, n):
    refused(write([("a", 1)], [ONE], DATA, **{count: n}), str(n))
