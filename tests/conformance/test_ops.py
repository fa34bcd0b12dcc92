"""Every op's samples: on every provider, and what the samples and the definitions themselves must be."""

import inspect
from functools import partial

import numpy as np
import pytest

from vtcore import ops, tensor
from vtcore.conformance.case import cases
from vtcore.conformance.check import check
from vtcore.conformance.trial import glance
from vtcore.errors import OpError
from vtcore.op import REGISTRY
from vtcore.providers import find
from vtcore.providers.null import provider as null
from vtcore.providers.reference import provider as reference
from vtcore.quant.blocks import FORMATS, Blocks

NAMES = sorted(ops.__all__)
ROWS = ("...", "T", "R")  # axes along which an op goes row by row
OTHERWISE = {  # rows by number
    "apply_logit_bias", "attention", "choose_entries", "compress", "compressed_attention", "dynamic_angles", "paged_attention", "place",
    "rope_angles", "write_pages", "write_pages_q8",
}  # fmt: skip
OTHERWISE |= {"causal_conv", "gated_delta", "selective_scan", "channel_scan"}  # rows in order


@pytest.fixture(scope="module")
def provider():
    made = find("portable")
    yield made
    made.close()


@pytest.fixture(scope="module")
def calls():
    return {name: list(cases(REGISTRY[name])) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_sample_and_fresh_calls_are_as_the_definition_says(provider, name):
    verdicts = list(check(provider, [name]))
    assert verdicts
    assert [str(v) for v in verdicts if v.bad] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_definition_is_as_the_definition_says(name, calls):
    assert {v.outcome for v in map(partial(glance, reference), calls[name])} == {"pass"}


def test_the_registry_holds_what_the_package_exports():
    assert sorted(n for n, op in REGISTRY.items() if op.reference.__module__.startswith("vtcore.ops.")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_error_inputs_raise_and_say_why(name):
    errors = list(REGISTRY[name].errors())
    assert len(errors) >= 2
    for call, words in errors:
        with pytest.raises(OpError) as raised:
            REGISTRY[name](**call)
        assert words in str(raised.value)
        assert str(raised.value).startswith(f"{name}: ")


@pytest.mark.parametrize("name", NAMES)
def test_null_gives_the_definition_s_shapes(name, calls):
    for case in calls[name]:
        want, got = outputs(case), null.accept(case.op, case.call)(**{n: as_tensor(v) for n, v in case.call.items()})
        got = [] if got is None else list(got) if isinstance(got, tuple) else [got]
        assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want], str(case)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_fresh_contiguous_float32_or_int32(name, calls):
    for case in calls[name]:
        for result in outputs(case):
            assert isinstance(result, np.ndarray)
            assert result.dtype in (np.float32, np.int32)
            assert result.flags.c_contiguous
            assert result.flags.writeable
            arrays = (v for v in case.call.values() if isinstance(v, np.ndarray))
            assert not any(np.shares_memory(result, a) for a in arrays), str(case)


@pytest.mark.parametrize("name", NAMES)
def test_samples_cover_every_parameter(name, calls):
    op = REGISTRY[name]
    for parameter, default in op.parameters.items():
        values = [case.call[parameter] for case in calls[name]]
        argument = op.signature.arguments.get(parameter)
        if argument is None:
            assert len(set(values)) > 1 or default is inspect.Parameter.empty, f"{parameter} is always {values[0]}"
            continue
        assert {v is None for v in values} == ({True, False} if argument.optional else {False}), parameter
        if (argument.kind == "f" and parameter != "state") or (argument.kind == "w" and not name.endswith("_q8")):
            dtypes = {str(v.dtype) for v in values if v is not None and not isinstance(v, list)}
            assert {"float32", "float16", "bfloat16"} <= dtypes, f"{parameter} is only {dtypes}"


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].signature.results])
def test_samples_hold_no_rows_one_row_and_several(name, calls):
    sizes = {outputs(case)[0].shape[0] for case in calls[name] if outputs(case)[0].ndim}
    assert {0, 1} <= sizes
    assert max(sizes) > 2


def test_samples_hold_every_format(calls):
    for name, argument in (("linear", "weight"), ("linear_q8", "weight"), ("embedding", "table")):
        formats = {case.call[argument].dtype.name for case in calls[name] if isinstance(case.call[argument], Blocks)}
        assert formats == {n for n, f in FORMATS.items() if name != "linear_q8" or f.codes}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in OTHERWISE])
def test_a_row_does_not_depend_on_its_neighbours(name, calls):
    op, tried = REGISTRY[name], 0
    for case in calls[name]:
        by_row = {n: a.axes for n, a in op.signature.arguments.items() if a.axes[0] in ROWS and case.call[n] is not None}
        n, whole = next(case.call[a].shape[:1] for a in by_row) or (0,), outputs(case)
        if any(case.call[a].shape[:1] != n or case.call[a].ndim < len(axes) for a, axes in by_row.items()) or n[0] < 2:
            continue
        tried += 1
        for rows in (slice(0, 1), slice(n[0] - 1, n[0]), slice(1, n[0])):
            part = op.reference(**case.call | {a: case.call[a][rows] for a in by_row})
            for got, want in zip(part if isinstance(part, tuple) else (part,), whole, strict=True):
                assert got.tobytes() == want[rows].tobytes(), str(case)
    assert tried > 1


@pytest.mark.parametrize("name", [n for n in NAMES if REGISTRY[n].touches])
def test_rows_that_an_op_does_not_touch_change_nothing(name, calls):
    op, poisoned = REGISTRY[name], 0
    for case in calls[name]:
        call = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in case.call.items()}
        others = {}
        for argument, touched in op.touches.items():
            if call[argument] is None:
                continue
            others[argument] = np.ones(len(call[argument]), bool)
            others[argument][touched(**case.call)] = False
            call[argument][others[argument]] = 77 if call[argument].dtype.kind == "i" else np.nan
            poisoned += int(others[argument].sum())
        want, got = outputs(case), op.reference(**call)
        assert [g.tobytes() for g in ([] if got is None else [got])] == [w.tobytes() for w in want]
        for argument in op.writes:
            left = call[argument][others[argument]].astype(np.float32)
            assert (np.isnan(left) | (left == 77)).all()
    assert poisoned


@pytest.mark.parametrize("name", NAMES)
def test_an_op_is_documented(name):
    op = REGISTRY[name]
    for parameter in op.parameters:
        assert parameter in op.__doc__, f"{name} doesn't say what {parameter} is"
    assert len(op.tolerance.source) > 20


def outputs(case):
    """What the definition gives, on copies."""
    out = case.op.reference(**{n: v.copy() if isinstance(v, np.ndarray) else v for n, v in case.call.items()})
    return [] if out is None else list(out) if isinstance(out, tuple) else [out]


def as_tensor(value):
    return tensor.of(value) if isinstance(value, (np.ndarray, Blocks)) else value
