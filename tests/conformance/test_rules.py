"""What a model may do, held against every registered architecture."""

import numpy as np
import pytest

from tests.conformance.gated import EXACT, ONE_EACH, golden_of, name_of
from tests.conformance.rules import Capture, Opaque, Poison, Trace, define
from vtcore.conformance.gate import answer, engine, judge, load
from vtcore.conformance.runner import Request, Runner, batch_of
from vtcore.tensor import Inputs, Tensor

every = pytest.mark.parametrize("golden", ONE_EACH, ids=name_of)


def requests_of(golden, wanted):
    return [Request(c.prompt, wanted) for c in golden.cases]


@every
def test_a_model_only_hands_arrays_to_ops(golden, monkeypatch):
    model, requests = load(golden), requests_of(golden, 2)
    Runner(model, Opaque(monkeypatch), 13).run(requests)
    assert [r.answer for r in requests] == [c.tokens[:2] for c in golden.cases]


@pytest.mark.parametrize("golden", EXACT, ids=name_of)
def test_every_tensor_of_the_checkpoint_is_read(golden):
    model = load(golden)
    Runner(model, engine(golden)).run(requests_of(golden, 1)[:1])
    assert model.weights.unread() == []


def traced(golden, lengths):
    """The trace of one forward over requests of (computed, new) tokens."""
    model, trace = load(golden), Trace()
    runner = Runner(model, trace)
    draw = np.random.default_rng(lengths)
    requests = [Request(draw.integers(3, 300, done).tolist(), 99) for done, _ in lengths]
    for r, (done, new) in zip(requests, lengths, strict=True):
        if done:
            runner.forward(runner.batch(runner.numbers([(r, done)])))
            r.computed = done
        r.tokens += draw.integers(3, 300, new).tolist()
    trace.seen.clear()
    runner.forward(runner.batch(runner.numbers([(r, new) for r, (_, new) in zip(requests, lengths, strict=True)])))
    return trace.seen


@every
def test_a_forward_depends_on_shapes_alone(golden):
    """Another content, other lengths, another division of the same 8 tokens among 3 requests: the same ops, shapes and numbers."""
    assert traced(golden, [(0, 6), (20, 1), (9, 1)]) == traced(golden, [(21, 2), (3, 3), (0, 3)])


WIDE = 8  # pages: enough for all steps


def widened(numbers):
    """Tables as wide in each step."""
    return {n: np.pad(a, ((0, 0), (0, WIDE - a.shape[1]))) if n.endswith("table") and n != "state:table" else a for n, a in numbers.items()}


@every
def test_a_captured_step_serves_all_later_ones(golden):
    """Three requests decode; the first decode step is captured, the other thirty run without the model."""
    requests, capture = requests_of(golden, 32)[:3], Capture()
    runner = Runner(load(golden), capture)
    whole = [(r, len(r.tokens)) for r in requests]
    runner.commit(whole, runner.forward(runner.batch(runner.numbers(whole))))
    capture.calls.clear()
    plan = [(r, 1) for r in requests]
    inputs = Inputs(widened(runner.numbers(plan)))
    with capture:
        logits = runner.model(batch_of(inputs.tensors), runner.cache).logits
    runner.commit(plan, logits.numpy().copy())
    while not requests[0].done:
        inputs.update(widened(runner.numbers(plan)))
        now = capture.replay()[logits.storage]
        runner.commit(plan, Tensor(now, logits.shape, logits.dtype, logits.strides, logits.offset).numpy().copy())
    assert [r.answer for r in requests] == [c.tokens for c in golden.cases[:3]]


def padded(numbers):
    """The same batch in a larger bucket: two tokens that belong to nobody, and a request of none."""
    out = dict(numbers)
    for name in ("tokens", "positions", "until"):
        out[name] = np.pad(numbers[name], (0, 2), constant_values=5)
    out["starts"] = np.append(numbers["starts"], numbers["starts"][-1])
    out["lengths"], out["prompts"] = np.append(numbers["lengths"], 0), np.append(numbers["prompts"], 0)
    for name, a in numbers.items():
        if name.endswith(":table"):
            out[name] = np.pad(a, ((0, 1), (0, 0 if name == "state:table" else 2)))
        elif name.endswith(":slots"):
            out[name] = np.pad(a, (0, 2), constant_values=-1)
    return out


def assert_same_bits(some, others):
    for r, s in zip(some, others, strict=True):
        assert r.tokens == s.tokens
        np.testing.assert_array_equal(r.rows.view(np.int32), s.rows.view(np.int32))


@every
def test_a_larger_bucket_changes_no_bit(golden):
    model, plain, larger = load(golden), requests_of(golden, 3), requests_of(golden, 3)
    Runner(model, engine(golden)).run(plain)
    runner = Runner(model, engine(golden))
    runner.shape = padded
    runner.run(larger)
    assert_same_bits(plain, larger)


@every
def test_an_op_touches_only_the_rows_that_it_says(golden):
    model, plain, poisoned, poison = load(golden), requests_of(golden, 2), requests_of(golden, 2), Poison()
    Runner(model, engine(golden)).run(plain)
    Runner(model, poison).run(poisoned)
    assert poison.poisoned > 0
    assert_same_bits(plain, poisoned)


def test_the_tools_of_these_tests_see_what_they_are_for(monkeypatch):
    """A model that breaks a rule is caught."""
    golden = golden_of("llama")
    model = load(golden)
    kept = model.norm
    monkeypatch.setattr(model, "norm", lambda x, p: kept(x, p) if x.numpy().any() else x)
    runner = Runner(model, Opaque(monkeypatch))
    with pytest.raises(AssertionError, match=r"a model used Tensor\.numpy"):
        runner.run(requests_of(golden, 1))


def test_poison_sees_a_row_that_was_not_named():
    golden = golden_of("llama")

    class Blind(Poison):
        """Hides one page more than the op allows."""

        def run(self, op, call):
            if op.name != "paged_attention":
                return define(op, call)
            call["k_pages"].numpy()[1:2] = np.nan
            return define(op, call)

    requests = requests_of(golden, 1)
    Runner(load(golden), Blind()).run(requests)
    assert any(np.isnan(r.rows).any() for r in requests)


def test_judging_sees_a_small_error():
    """Nine tenths of a thousandth in one scale leave the tokens as they are, and are seen."""
    golden = golden_of("llama")
    model = load(golden)
    for w in model.layers:
        object.__setattr__(w.config, "scale", w.config.scale * 1.0009)
    verdict = judge(golden, answer(model, golden))
    assert verdict.matched == verdict.tokens
    assert verdict.error > verdict.tolerance
    assert not verdict.passed
