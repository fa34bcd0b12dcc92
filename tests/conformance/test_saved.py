"""A case survives a file, and a wrong file is refused in words."""

import contextlib
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtcore.conformance import saved
from vtcore.conformance.case import cases
from vtcore.conformance.record import Record
from vtcore.conformance.saved import CALL, load, load_all, pack, save, unpack
from vtcore.conformance.verdict import Verdict
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY
from vtcore.quant.blocks import Blocks


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Blocks):
        return isinstance(b, Blocks) and a.dtype is b.dtype and a.data.tobytes() == b.data.tobytes()
    if isinstance(a, np.ndarray):
        strides = not a.size or a.strides == b.strides
        return isinstance(b, np.ndarray) and (a.shape, a.dtype) == (b.shape, b.dtype) and strides and a.tobytes() == b.tobytes()
    return a == b


@pytest.mark.parametrize("name", ["experts", "embedding", "linear", "paged_attention", "route", "silu_mul", "write_pages"])
def test_every_sample_comes_back_as_it_was(name):
    for case in cases(REGISTRY[name]):
        back = unpack(pack(case))
        assert (back.op, back.label, repr(back)) == (case.op, case.label, repr(case))
        assert all(same(case.call[n], back.call[n]) for n in case.call)


def test_a_file(tmp_path):
    case = list(cases(REGISTRY["rms_norm"]))[9]
    save(case, tmp_path / "one.npz")
    assert repr(load(tmp_path / "one.npz")) == repr(case)
    with np.load(tmp_path / "one.npz") as arrays:
        np.testing.assert_array_equal(arrays["x"], case.call["x"])


def packed(**changes):
    arrays = pack(list(cases(REGISTRY["rms_norm"]))[9])
    head = json.loads(bytes(arrays[CALL])) | changes
    return arrays | {CALL: np.frombuffer(json.dumps(head).encode(), np.uint8)}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "not a saved case: KeyError: 'call'"),
        ({CALL: np.frombuffer(b"{", np.uint8)}, "not a saved case"),
        ({CALL: np.frombuffer(b"[]", np.uint8)}, "not a saved case"),
        (packed(op="rms_nrom"), "'rms_nrom'"),
        (packed(arguments={"x": 3}), "not a saved case"),
        (packed(arguments={"x": {"array": "y"}}), "not a saved case"),
        (packed(arguments={"x": {"array": "x", "dtype": "float32", "steps": [-1, 1]}}), "strides"),
        (packed(arguments={"x": {"array": "x", "dtype": "float32", "steps": [1 << 40, 1]}}), "take"),
        (packed(arguments={"x": {"array": "x", "dtype": "float32", "steps": [4, 1]}}), "share a place"),
        (packed(arguments={"x": {"array": "x", "dtype": "float32", "steps": [1]}}), "too few"),
        (packed(arguments={"x": {"array": "x", "dtype": "float16"}}), "'x' is stored as float32; 'float16' is said"),
        (packed(arguments={"x": {"array": "x", "dtype": "bfloat16"}}), "stored as float32"),
        (packed(arguments={"x": {"array": "x", "dtype": "object"}}), "stored as float32"),
        (packed(arguments={"x": {"array": "x", "format": "Q8_0"}}), "a row of Q8_0"),
        (packed(seed=[]), "not a saved case"),
        (packed(arguments={"x": {"array": "x", "dtype": "float32"}, "weight": {"value": None}, "eps": {"value": -1.0}}), "eps is -1.0"),
    ],
)
def test_what_is_no_case_is_refused(arrays, words):
    with pytest.raises(ArgumentError, match=words.replace("[", r"\[")):
        unpack(arrays)


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("text.npz", "empty.npz", "missing.npz"):
        with pytest.raises(ArgumentError, match=name.replace(".", r"\.")):
            load(tmp_path / name)


def test_sizes_are_checked_before_anything_is_unpacked(tmp_path, monkeypatch):
    path, head = tmp_path / "case.npz", b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    lies = head + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", lies)
    with pytest.raises(ArgumentError, match=r"x\.npy says float32\[1099511627776\] and holds 0 bytes"):
        load(path)
    np.savez(path, x=np.array([[print]], object))
    with pytest.raises(ArgumentError, match=r"x\.npy holds Python objects"):
        load(path)
    save(next(cases(REGISTRY["rms_norm"])), path)
    monkeypatch.setattr(saved, "LARGEST", 100)
    with pytest.raises(ArgumentError, match="a case may take 100"):
        load(path)


@settings(max_examples=100, deadline=None)
@given(at=st.integers(0, 10**9), byte=st.integers(0, 255), length=st.integers(0, 10**9))
def test_damaged_files_never_crash(at, byte, length, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "case.npz"
    save(next(cases(REGISTRY["rms_norm"])), path)
    data = bytearray(path.read_bytes())
    data[at % len(data)] = byte
    path.write_bytes(data[: len(data) - length % 2 * (length % len(data))])
    with contextlib.suppress(ArgumentError):
        assert load(path).op.name == "rms_norm"


def test_a_directory_of_cases(tmp_path):
    with pytest.raises(ArgumentError, match=r"holds no \.npz files"):
        list(load_all(tmp_path))
    for i, case in enumerate(cases(REGISTRY["argmax"])):
        save(case, tmp_path / f"{9 - i}.npz", {"model": "tiny"})
        if i == 2:
            break
    assert [c.number for c in load_all(tmp_path)] == [0, 1, 2]
    last = list(load_all(tmp_path))[-1]
    assert last.path == str(tmp_path / "9.npz")
    assert Record("p", 0, cases=str(tmp_path)).again(Verdict(last, "p", "fail")).endswith("9.npz")
    assert len(list(load_all(tmp_path / "9.npz"))) == 1
