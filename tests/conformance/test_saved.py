"""A case survives a file, and a wrong file is refused in words."""

import json

import numpy as np
import pytest

from vtcore.conformance.case import cases
from vtcore.conformance.saved import CALL, load, pack, save, unpack
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
