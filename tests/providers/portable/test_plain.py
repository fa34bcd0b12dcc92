"""Kernels that Numba compiles: they give what the definitions give, to a row alone as beside others, recorded as eager."""

import os
import subprocess
import sys
from functools import cache
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checkpoints import random_llama
from tests.providers.portable.instances import portable, run
from vtcore import ops
from vtcore.capture import Capture
from vtcore.conformance.case import cases
from vtcore.conformance.trial import glance
from vtcore.dispatch import Dispatcher
from vtcore.errors import ProviderError
from vtcore.op import REGISTRY
from vtcore.providers.portable.kernels import draw
from vtcore.providers.portable.kernels import plain as family
from vtcore.providers.portable.kernels.plain import choice, numba_text
from vtcore.providers.portable.kernels.plain.attention import exponential
from vtcore.providers.portable.kernels.plain.kernel import Plain, plain
from vtcore.providers.portable.kernels.plain.words import floats, words
from vtcore.tensor import of

NAMES = [
    "apply_logit_bias", "apply_min_p", "apply_penalties", "apply_temperature", "apply_token_mask", "apply_top_k_top_p", "attention",
    "place", "random_sample", "top_k",
]  # fmt: skip
TOLD = """
import sys, vtcore
llm = vtcore.LLM(sys.argv[1], providers="portable", threads=1)
for params in ({"temperature": 0.0}, {"temperature": 0.8, "top_p": 0.9, "seed": 1}):
    outputs = llm.generate([[5, 6, 7]], vtcore.SamplingParams(max_tokens=6, **params))
    print(outputs[0].outputs[0].token_ids, "numba" in sys.modules)
"""


def one_thread():
    return portable(threads=1)


def same(op, provider=None, **call):
    got, want = run(provider or one_thread(), op, **call), op.reference(**call)
    np.testing.assert_array_equal(got, want)
    return got


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", NAMES)
def test_samples_are_as_the_definitions_say(op, threads):
    judged = [glance(portable(threads=threads), case) for case in cases(REGISTRY[op])]
    assert judged
    assert [str(v) for v in judged if v.outcome != "pass"] == []


@cache
def ready():
    """A provider whose kernels are compiled: what hypothesis times is then their work."""
    for case in chain.from_iterable(cases(REGISTRY[n]) for n in NAMES):
        glance(one_thread(), case)
    return one_thread()


@st.composite
def logits(draw_):
    """float32 [R V]: ordinary rows, rows with many equals, with excluded tokens, with nothing but them, with what is not a number."""
    rows, width, seed = draw_(st.integers(1, 4)), draw_(st.integers(1, 90)), draw_(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((rows, width)) * 10.0 ** rng.integers(-9, 4)).astype(np.float32)
    for row in x:
        kind = draw_(st.sampled_from(["", "equals", "excluded", "nothing", "nan", "inf", "zeros"]))
        some = rng.random(width) < 0.4
        if kind == "equals":
            row[:] = rng.integers(-2, 3, width)
        elif kind == "nothing":
            row[:] = -np.inf
        elif kind:
            row[some] = rng.choice({"excluded": [-np.inf], "nan": [np.nan], "inf": [np.inf], "zeros": [0.0, -0.0]}[kind], some.sum())
    return x


def per_row(values, rows, dtype=np.float32):
    return np.resize(np.array(values, dtype), rows)


FEW = settings(max_examples=60)
SEEDS = st.integers(0, 2**32 - 1)


@FEW
@given(logits(), st.lists(st.integers(-1, 95), min_size=1, max_size=4), st.lists(st.floats(0, 1.5, width=32), min_size=1, max_size=4))
def test_top_k_and_top_p(x, k, p):
    same(ops.apply_top_k_top_p, ready(), logits=x, k=per_row(k, len(x), np.int32), p=per_row(p, len(x)))


@FEW
@given(logits(), st.lists(st.floats(0, 1, width=32), min_size=1, max_size=4))
def test_min_p(x, min_p):
    same(ops.apply_min_p, ready(), logits=x, min_p=per_row(min_p, len(x)))


@FEW
@given(logits(), st.data())
def test_the_k_largest(x, data):
    k = data.draw(st.integers(1, x.shape[1]))
    got = run(ready(), ops.top_k, x=x, k=k)
    for values, want in zip(got, ops.top_k.reference(x, k), strict=True):
        np.testing.assert_array_equal(values.numpy(), want)
        np.testing.assert_array_equal(np.signbit(values.numpy()), np.signbit(want))


@FEW
@given(logits(), SEEDS)
def test_draws(x, seed):
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        probs = [ops.softmax.reference(x), np.abs(x), x, np.zeros_like(x)][seed % 4]
    seeds, steps = rng.integers(-(2**63), 2**63 - 1, len(x)), rng.integers(0, 2**31 - 1, len(x)).astype(np.int32)
    same(ops.random_sample, ready(), probs=probs, seeds=seeds, steps=steps)


@FEW
@given(logits(), SEEDS)
def test_what_changes_logits(x, seed):
    rng, r, provider = np.random.default_rng(seed), len(x), ready()
    same(ops.apply_temperature, provider, logits=x, temperature=rng.choice(np.float32([0, 1e-6, 0.7, 1, 2.5]), r))
    same(ops.apply_token_mask, provider, logits=x, mask=rng.random(x.shape) < 0.5)
    n = int(rng.integers(0, 12))
    rows, ids = (rng.integers(0, size, n).astype(np.int32) for size in x.shape)
    same(ops.apply_logit_bias, provider, logits=x, rows=rows, ids=ids, values=rng.standard_normal(n).astype(np.float32) * 50)
    numbers = {n: rng.choice(np.float32(v), r) for n, v in (("repetition", [0.7, 1, 1.3]), ("frequency", [-1, 0, 2]), ("presence", [0, 1]))}
    counts, seen = rng.integers(0, 3, x.shape).astype(np.int32), rng.random(x.shape) < 0.5
    same(ops.apply_penalties, provider, logits=x, prompt_seen=seen, counts=counts, **numbers)


@FEW
@given(st.integers(0, 6), st.integers(0, 9), st.integers(1, 40), st.booleans(), SEEDS)
def test_rows_are_placed(height, n, width, add, seed):
    rng = np.random.default_rng(seed)
    x, values = (rng.standard_normal((count, width)).astype(np.float32) for count in (height, n))
    same(ops.place, ready(), x=x, rows=rng.integers(-1, height, n).astype(np.int32), values=values, add=add)


def sampled(rng, rows, width):
    """A call of each exact op on logits, by name."""
    x, each = (rng.standard_normal((rows, width)) * 4).astype(np.float32), np.ones(rows, np.float32)
    probs = ops.softmax.reference(x)
    return {
        "apply_temperature": {"logits": x, "temperature": each * 0.8},
        "apply_top_k_top_p": {"logits": x, "k": per_row([0, 7, 50], rows, np.int32), "p": per_row([0.9, 1, 0.5], rows)},
        "apply_min_p": {"logits": x, "min_p": each * 0.1},
        "random_sample": {"probs": probs, "seeds": np.arange(rows), "steps": np.arange(rows, dtype=np.int32)},
        "apply_token_mask": {"logits": x, "mask": x > 1},
    }


@pytest.mark.parametrize("name", sorted(sampled(np.random.default_rng(0), 1, 9)))
def test_a_vocabulary_and_each_of_its_rows_alone(name):
    call, op = sampled(np.random.default_rng(3), 5, 40_000)[name], getattr(ops, name)
    whole = same(op, portable(threads=2), **call)
    for r in range(5):
        np.testing.assert_array_equal(run(one_thread(), op, **{n: v[r : r + 1] for n, v in call.items()}), whole[r : r + 1])


def test_values_too_near_to_the_edge_of_min_p_are_the_definition_s():
    x = np.array([[0, -1e-10, -1e-20, 1e-30, -1], [0, -1e-10, -1e-20, -3, -1]], np.float32)
    got = same(ops.apply_min_p, logits=x, min_p=np.float32([1, 1]))
    assert np.isneginf(got[:, 1]).all()
    assert got[0, 2] == np.float32(-1e-20)


@pytest.mark.parametrize("k", range(-1, 8))
def test_the_k_th_may_be_no_number_or_one_of_equals(k):
    x = np.array([[np.nan, 1, 2, np.nan, 0, -np.inf], [0.0, -0.0, 0.0, -0.0, 1, -1], [-np.inf, 3, -np.inf, 3, 3, np.inf]], np.float32)
    same(ops.apply_top_k_top_p, logits=x, k=np.full(3, k, np.int32), p=np.ones(3, np.float32))


def test_shares_that_end_at_p():
    """Equal tokens, whose shares sum up to p or to just beside it."""
    for width in (2, 3, 7, 10, 64):
        for kept in range(width):
            p = np.float32([kept / width, np.nextafter(np.float32(kept / width), 1), np.nextafter(np.float32(kept / width), -1).clip(0)])
            same(ops.apply_top_k_top_p, logits=np.zeros((3, width), np.float32), k=np.zeros(3, np.int32), p=p)


def test_where_many_may_win_the_definition_says_who_does(monkeypatch):
    def wins(*_):
        raise AssertionError

    seeds, steps = np.array([4]), np.array([2], np.int32)
    probs = np.exp2(np.arange(-120, 120, 3, dtype=np.float32))[None]  # each eight times as likely as the one before it
    same(ops.random_sample, probs=probs, seeds=seeds, steps=steps)
    monkeypatch.setattr(draw, "winners", wins)
    same(ops.random_sample, probs=np.zeros((1, 9), np.float32), seeds=seeds, steps=steps)
    with pytest.raises(AssertionError):
        same(ops.random_sample, probs=np.ones((1, 9), np.float32), seeds=seeds, steps=steps)


def test_close_races():
    """Of a thousand alike the second best is within a percent of the best in one row of a hundred."""
    probs = np.random.default_rng(0).uniform(0.9, 1, (700, 1000)).astype(np.float32)
    same(ops.random_sample, probs=probs, seeds=np.arange(700) - 350, steps=np.zeros(700, np.int32))


def test_draws_follow_the_probabilities():
    probs = np.tile(np.float32([0.5, 0.25, 0.125, 0.125]), (4000, 1))
    ids = run(one_thread(), ops.random_sample, probs=probs, seeds=np.arange(4000), steps=np.zeros(4000, np.int32))
    np.testing.assert_allclose(np.bincount(ids) / 4000, probs[0], atol=0.03)


def test_the_exponential():
    x = -np.geomspace(1e-12, 87, 2000)
    np.testing.assert_allclose([exponential(v) for v in x], np.exp(x), rtol=1e-8)
    assert exponential(0.0) == 1
    assert exponential(-88.0) == exponential(-np.inf) == 0
    assert np.isnan(exponential(np.nan))


def test_a_recorded_step_reads_new_numbers():
    rng = np.random.default_rng(5)
    x, rows = of(np.zeros((4, 3, 8), np.float32)), of(np.zeros(2, np.int32))
    weight, starts = of(rng.standard_normal((3, 8, 8)).astype(np.float32)), of(np.array([0, 4], np.int32))

    def step():
        y = ops.per_head(x, weight)
        y = ops.attention(y, x, y, starts, 0.3)
        flat = ops.place(y.reshape(4, 24), rows, x.reshape(4, 24)[:2], add=True)
        values, ids = ops.top_k(flat, 5)
        kept = ops.apply_top_k_top_p(flat, of(np.full(4, 9, np.int32)), of(np.full(4, 0.8, np.float32)))
        drawn = ops.random_sample(ops.softmax(kept), of(np.arange(4)), of(np.zeros(4, np.int32)))
        return flat, values, ids, kept, drawn

    dispatcher = Dispatcher([portable(threads=2)])
    with dispatcher, Capture(dispatcher) as capture:
        recorded = step()
    assert {d.op for d in dispatcher.declines} == {"apply_top_k_top_p", "random_sample"}
    for _ in range(3):
        x.numpy()[...], rows.numpy()[...] = rng.standard_normal((4, 3, 8)), rng.permutation(4)[:2]
        with dispatcher:
            eager = [t.numpy().copy() for t in step()]
        capture.replay()
        for got, want in zip(recorded, eager, strict=True):
            np.testing.assert_array_equal(got.numpy(), want)


def test_a_guard_says_what_it_cannot_read():
    x = of(np.ones((2, 8), np.float32))
    for op, call, reason in (
        (ops.top_k, {"x": x, "k": 9}, "k is 9, and a row has 8 values"),
        (ops.place, {"x": x, "rows": of(np.array([0])), "values": x[:1], "add": False}, "rows is int64; the kernel reads int32"),
        (ops.apply_temperature, {"logits": of(np.ones((2, 8))), "temperature": of(np.ones(2, np.float32))}, "logits is float64"),
    ):
        assert reason in one_thread().accept(op, call).reason


@plain("x -> y")
def fails(table, thread, threads):
    """A step of zero is an exception."""
    for i in range(0, 8, words(table)[1]):
        floats(table, 0, 8)[i] = 0


def test_a_kernel_that_might_raise_is_refused():
    with pytest.raises(ProviderError, match=r"the plain kernel fails, as Numba .* compiles it, needs exceptions"):
        numba_text.exported(fails.emit, "fails")


def test_without_numba_an_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, numba_text.__name__, None)
    monkeypatch.delattr(family, "numba_text")
    with pytest.raises(ProviderError, match="kernel best is compiled by Numba, which can't be imported"):
        choice.best.text("best", one_thread().isa, {})


def test_every_op_of_this_family_has_a_plain_kernel():
    assert [v.name for v in vars(choice).values() if isinstance(v, Plain)] == ["best"]
    assert set(NAMES) <= set(one_thread().kernels)


def test_tokens_are_chosen_without_numba(tmp_path):
    model, environment = random_llama(tmp_path / "model"), os.environ | {"VTCORE_CACHE": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", TOLD, model], env=environment, capture_output=True, text=True, check=True).stdout
    greedy, sampled_ids = (line.rsplit(" ", 1) for line in said.splitlines())
    assert greedy[1] == sampled_ids[1] == "False"
    assert greedy[0] != sampled_ids[0]
