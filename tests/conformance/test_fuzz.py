"""Drawn calls find what samples don't, and show the smallest."""

import numpy as np
import pytest

from vtcore.conformance.case import Case, cases
from vtcore.conformance.check import Here, check
from vtcore.conformance.fuzz import Drawn, drawn, fuzzed
from vtcore.conformance.steady import steady
from vtcore.conformance.twin import twin
from vtcore.conformance.vary import Random
from vtcore.op import REGISTRY
from vtcore.providers.arrays import Arrays

NAMES = sorted(n for n, op in REGISTRY.items() if op.reference.__module__.startswith("vtcore.ops."))


def provider(op, function):
    made = Arrays("mine")
    made.kernel(op)(function)
    return made


def bad_at_17(x, factor):
    out = np.asarray(x * np.float64(factor), np.float32)
    if x.ndim and x.shape[-1] >= 17:
        out[..., 16] = 0
    return out


def test_a_failing_call_is_made_small_and_is_the_same_each_time():
    found = [list(fuzzed(Here(provider("scale", bad_at_17)), REGISTRY["scale"], 1, 60)) for _ in range(2)]
    assert list(map(str, found[0])) == list(map(str, found[1]))
    *passed, failed = found[0]
    assert {v.outcome for v in passed} <= {"pass"}
    assert (failed.outcome, failed.kind) == ("fail", "wrong_value")
    assert failed.case.call["x"].shape[-1] == 17
    assert failed.case.call["x"].size == 17
    assert failed.worst.index[-1] == 16


def test_a_right_kernel_passes_them_all():
    verdicts = list(check(provider("scale", lambda x, factor: np.asarray(x * np.float64(factor), np.float32)), ["scale"], fuzz=30))
    assert sum(v.case.source == "drawn" for v in verdicts) == 30
    assert {v.outcome for v in verdicts} == {"pass"}
    assert all(not v.case.call and "scale(x=" in str(v) for v in verdicts if v.case.source == "drawn")


def test_another_seed_draws_others():
    def shown(seed):
        return [str(v) for v in fuzzed(Here(provider("relu", lambda x: np.maximum(x, 0).astype(np.float32))), REGISTRY["relu"], seed, 10)]

    assert shown(1) == shown(1) != shown(2)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_drawn_is_a_call_that_the_op_takes(name):
    op, samples = REGISTRY[name], list(cases(REGISTRY[name]))
    shapes = set()
    for i in range(12):
        call = drawn(op, samples, Random(np.random.default_rng(i)))
        op.validate(call)
        op.reference(**{n: v.copy() if isinstance(v, np.ndarray) else v for n, v in call.items()})
        shapes.add(str([getattr(v, "shape", None) for v in call.values()]))
    assert len(shapes) > 4


@pytest.mark.parametrize("name", NAMES)
def test_most_samples_have_a_twin_that_differs(name):
    op = REGISTRY[name]
    found = [twin(case) for case in cases(op)]
    assert any(found)
    for case, other in zip(cases(op), found, strict=True):
        if other is not None:
            assert [getattr(v, "strides", None) for v in case.call.values()] == [getattr(v, "strides", None) for v in other.call.values()]


def test_a_call_whose_result_hangs_on_a_last_place_says_nothing():
    op = REGISTRY["softmax"]
    assert steady(Case(op, {"x": np.array([[1.0, 2.0]], np.float32)}, 0, 0))
    assert not steady(Case(op, {"x": np.float32(1e7) + np.arange(10, dtype=np.float32)[None]}, 0, 0))


def test_drawn_choices_shrink_to_the_first_option():
    class Data:
        def draw(self, strategy):
            return 0

    assert Drawn(Data()).pick(("a", "b")) == "a"


def test_draws_are_like_what_was_not_declined():
    op = REGISTRY["linear"]
    taken = {c.number for c in cases(op) if str(c.call["weight"].dtype) == "Q4_0"}
    mine = Arrays("mine")
    mine.kernel("linear", declines=lambda x, weight, bias: None if str(weight.dtype) == "Q4_0" else "no")(op.reference)
    found = list(fuzzed(Here(mine), op, 0, 10, {c.number for c in cases(op)} - taken))
    assert [v.outcome for v in found] == ["pass"] * 10
