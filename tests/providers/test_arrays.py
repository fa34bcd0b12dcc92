"""Kernels as functions of arrays: what they are handed, what they may leave out, and what they can't be."""

import numpy as np
import pytest

from vtcore import ops
from vtcore.conformance import check_kernel, kernel
from vtcore.conformance.check import check
from vtcore.errors import ArgumentError, ProviderError
from vtcore.providers import find
from vtcore.providers.arrays import Arrays
from vtcore.quant.blocks import Blocks

FILE = """
import numpy as np
from vtcore.conformance import kernel

@kernel("scale")
def scale(x, factor):
    return np.asarray(x * np.float64(factor), np.float32)

@kernel("clamp", declines=lambda x, limit: "rows are wide" if x.shape[-1] > 1000 else None)
def clamp(x, limit, out):
    out[...] = np.clip(x, -limit, limit)
"""


def outcomes(verdicts):
    return {v.outcome for v in verdicts}


def test_a_file_of_marked_functions_is_a_provider(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    provider = find(str(tmp_path / "mine.py"))
    assert (provider.name, sorted(provider.kernels)) == ("mine", ["clamp", "scale"])
    assert outcomes(check(provider, ["scale"])) == {"pass"}
    assert outcomes(check(provider, ["clamp"])) == {"pass", "declined"}


def test_one_function_in_three_lines():
    assert outcomes(check_kernel("relu", lambda x: np.maximum(x, 0).astype(np.float32))) == {"pass"}
    assert "fail" in outcomes(check_kernel(ops.relu, lambda x: np.abs(x).astype(np.float32)))


def test_several_results_are_written_into_a_list_or_returned_as_a_tuple():
    def into(x, residual, weight, eps, offset, groups, out):
        for room, values in zip(out, ops.add_rms_norm.reference(x, residual, weight, eps, offset, groups), strict=True):
            room[...] = values

    assert outcomes(check_kernel("add_rms_norm", into)) == {"pass"}
    assert outcomes(check_kernel("add_rms_norm", lambda **call: ops.add_rms_norm.reference(**call))) == {"pass"}


def test_what_an_op_writes_is_written_in_place_and_blocks_come_as_blocks():
    seen = set()

    def linear(x, weight, bias):
        seen.add(type(weight))
        return ops.linear.reference(x, weight, bias)

    assert outcomes(check_kernel("write_pages", ops.write_pages.reference)) == {"pass"}
    assert outcomes(check_kernel("linear", linear)) == {"pass"}
    assert seen == {np.ndarray, Blocks}


def test_arguments_that_are_left_out_and_other_dtypes_are_declined():
    verdicts = list(check_kernel("rms_norm", lambda x, weight, eps: ops.rms_norm.reference(x, weight, eps)))
    assert {v.reason for v in verdicts if v.outcome == "declined"} == {"the kernel takes no offset", "the kernel takes no groups"}
    assert outcomes(verdicts) == {"pass", "declined"}
    provider = Arrays("mine")
    provider.kernel("silu", dtypes=["float32"])(ops.silu.reference)
    reasons = {v.reason for v in check(provider, ["silu"]) if v.outcome == "declined"}
    assert reasons == {"x is float16; the kernel takes float32", "x is bfloat16; the kernel takes float32"}


def test_writing_beside_out_is_seen():
    def relu(x, out):
        np.maximum(x, 0, out=out, casting="unsafe")
        beyond = np.lib.stride_tricks.as_strided(out.reshape(-1), (out.size + 1,), (4,))
        beyond[-1] = 0

    assert {v.kind for v in check_kernel("relu", relu)} == {"out_of_bounds"}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda y: y, "takes y, which the op hasn't; the op's arguments are x"),
        (lambda out: None, "doesn't take x"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(function, words):
    with pytest.raises(ProviderError, match=words):
        Arrays("mine").kernel("silu")(function)


def test_an_op_must_be_there():
    with pytest.raises(ArgumentError, match="there is no op 'sliu'"):
        kernel("sliu")
    with pytest.raises(ArgumentError, match="there is no op 'sliu'"):
        check_kernel("sliu", lambda x: x)


def test_a_kernel_without_a_result_is_judged():
    assert {v.kind for v in check_kernel("silu", lambda x: None)} == {"wrong_shape"}
    assert {v.kind for v in check_kernel("silu", lambda x: 3)} == {"wrong_layout"}


@pytest.mark.parametrize(
    ("dtypes", "words"),
    [(["fp32"], "dtypes holds 'fp32'; there are float32"), ("float32", r"such as \['float32'\]"), ([np.float32], "class 'numpy.float32'")],
)
def test_a_dtype_that_is_none_is_refused(dtypes, words):
    with pytest.raises(ArgumentError, match=words):
        kernel("silu", dtypes=dtypes)
    with pytest.raises(ArgumentError, match=words):
        Arrays("mine").kernel("silu", dtypes=dtypes)


def test_a_file_without_a_kernel_is_said_to_hold_none(tmp_path):
    (tmp_path / "mine.py").write_text("x = 1\n")
    with pytest.raises(ProviderError, match="holds no kernel"):
        find(str(tmp_path / "mine.py"))
