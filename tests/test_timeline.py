"""What a trace holds: valid JSON of the format, slices that nest, and as many of them as ops ran."""

import io
import json
from collections import Counter

import pytest

from tests.checkpoints import random_llama
from tests.fakes import FarMemory, far_view
from vtcore import LLM, SamplingParams
from vtcore.ops import add
from vtcore.provider import Provider
from vtcore.providers import find
from vtcore.tensor import empty, held
from vtcore.timeline import Timeline
from vtcore.watched import dispatcher_of, wrapped

GREEDY = SamplingParams(temperature=0, max_tokens=5)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return random_llama(tmp_path_factory.mktemp("traced"))


def traced(model, prompts=((5, 6, 7),), **options):
    """The trace of a short answer as a reader gets it, and the LLM's report of the same time."""
    with LLM(model, threads=None if options.get("providers") else 1, **options) as llm:
        with Timeline(llm.engine, {"model": "tiny"}) as timeline:
            llm.generate([{"prompt_token_ids": list(p)} for p in prompts], GREEDY)
        file = io.StringIO()
        timeline.dump(file)
        return json.loads(file.getvalue()), llm.report()


def slices(trace, category):
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == category]


def inside(inner, outer):
    return outer["ts"] <= inner["ts"] + 1e-6 and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1e-3


def check_format(trace):
    """The fields that the format asks for; slices of a thread in order, each inside or behind the others."""
    assert trace["metadata"]["model"] == "tiny"
    for e in trace["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= e.keys()
        assert e["ph"] in "XiM"
        assert e["ph"] == "M" or (e["ts"] >= 0 and e.get("dur", 0) >= 0)
    open_slices, last, thread = [], 0.0, None
    for e in (e for e in trace["traceEvents"] if e["ph"] == "X"):
        if e["tid"] != thread:
            open_slices, last, thread = [], 0.0, e["tid"]
        assert e["ts"] >= last
        last = e["ts"]
        while open_slices and open_slices[-1]["ts"] + open_slices[-1]["dur"] <= e["ts"] + 1e-6:
            open_slices.pop()
        assert not open_slices or inside(e, open_slices[-1])
        open_slices.append(e)


def test_every_op_is_a_slice_inside_its_step(model):
    trace, report = traced(model, capture=False)
    check_format(trace)
    ops = slices(trace, "op")
    assert Counter((e["name"], e["args"]["provider"]) for e in ops) == {(r.op, r.provider): r.calls for r in report.ran}
    steps = [e for e in slices(trace, "engine") if e["name"] == "step"]
    forwards = [e for e in slices(trace, "engine") if e["name"] == "forward"]
    assert len(steps) == len(forwards) == 5
    assert all(any(inside(op, step) for step in steps) for op in ops)
    assert sum(e["dur"] for e in ops) <= sum(e["dur"] for e in steps)
    assert [e["args"]["tokens"] for e in forwards] == [3, 1, 1, 1, 1]
    assert {e["args"]["mode"] for e in forwards} == {"op by op"}


def test_with_async_scheduling_ops_lie_beside_the_steps(model):
    trace, report = traced(model, capture=False, async_scheduling=True)
    check_format(trace)
    ops, engine = slices(trace, "op"), slices(trace, "engine")
    assert Counter(e["name"] for e in ops) == Counter({r.op: r.calls for r in report.ran})
    assert len([e for e in engine if e["name"] == "forward"]) == 5
    assert {e["tid"] for e in ops} == {e["tid"] for e in engine if e["name"] == "forward"}
    assert {e["tid"] for e in ops}.isdisjoint(e["tid"] for e in engine if e["name"] == "step")


def test_an_op_says_shapes_and_numbers(model):
    trace, _ = traced(model, capture=False)
    norm = next(e for e in slices(trace, "op") if e["name"] == "rms_norm")["args"]
    assert norm["call"] == {"x": "float32[3 32]", "weight": "float32[32]", "eps": "1e-05", "offset": "0.0", "groups": 1}
    assert norm["result"] == "float32[3 32]"
    assert norm["copied_bytes"] == 0


def test_replayed_steps_count_their_ops(model):
    trace, report = traced(model)
    check_format(trace)
    forwards = [e["args"] for e in slices(trace, "engine") if e["name"] == "forward"]
    assert [f["mode"] for f in forwards] == ["op by op", "op by op", "recorded", "replayed", "replayed"]
    assert forwards[3]["ops"] == forwards[2]["ops"] > 20
    shown = len(slices(trace, "op"))
    assert shown + sum(f["ops"] for f in forwards if f["mode"] == "replayed") == sum(r.calls for r in report.ran)


def test_rounding_holds_the_ops_that_it_is_made_of(model):
    trace, _ = traced(model, capture=False, dtype="bfloat16")
    check_format(trace)
    gates = [e for e in slices(trace, "engine") if e["name"] == "silu_mul rounded"]
    parts = [e["name"] for e in slices(trace, "op") if inside(e, gates[0])]
    assert parts == ["silu", "mul"]


def test_copies_and_declines_are_moments_inside_the_op(model, monkeypatch):
    far = Provider("far", FarMemory())
    far.kernel(add, declines=lambda x, y: None if x.ndim == 9 else "x has few axes")(lambda x, y: held(None))
    monkeypatch.setattr("vtcore.assembly.chain", lambda *_: [far, find("reference")])
    trace, report = traced(model, providers="reference")
    declines = [e for e in trace["traceEvents"] if e["name"] == "decline"]
    assert Counter((e["args"]["op"], e["args"]["reason"]) for e in declines) == {(d.op, d.reason): d.calls for d in report.declined}
    sums = [e for e in slices(trace, "op") if e["name"] == "add"]
    assert all(any(s["ts"] <= d["ts"] <= s["ts"] + s["dur"] for s in sums) for d in declines if d["args"]["op"] == "add")


def test_copies_are_seen(model, monkeypatch):
    far = Provider("far", FarMemory())
    far.kernel(add)(lambda x, y: far_sum(far, x, y))
    monkeypatch.setattr("vtcore.assembly.chain", lambda *_: [far, find("reference")])
    trace, report = traced(model, providers="reference")
    copies = [e["args"] for e in trace["traceEvents"] if e["name"] == "copy"]
    assert sum(c["bytes"] for c in copies) == sum(c.nbytes for c in report.copied) > 0
    assert sum(e["args"]["copied_bytes"] for e in slices(trace, "op")) == sum(c["bytes"] for c in copies)


def far_sum(far, x, y):
    out = empty(far.memory, x.shape)
    far_view(out, far.memory)[...] = far_view(x, far.memory) + far_view(y, far.memory)
    return out


def test_events_are_bounded(model, monkeypatch):
    monkeypatch.setattr("vtcore.timeline.MOST_EVENTS", 10)
    trace, _ = traced(model, capture=False)
    assert len([e for e in trace["traceEvents"] if e["ph"] != "M"]) == 10
    assert trace["metadata"]["dropped_events"] > 100


def test_nothing_is_left_behind(model):
    with LLM(model, threads=1) as llm:
        before = [dict(vars(o)) for o in (llm.engine, llm.engine.runner, dispatcher_of(llm.engine))]
        with Timeline(llm.engine):
            pass
        assert before == [vars(o) for o in (llm.engine, llm.engine.runner, dispatcher_of(llm.engine))]


def test_wrapped_methods_nest():
    class Bell:
        def ring(self):
            return "ring"

    bell = Bell()
    with wrapped(bell, ring=lambda ring: lambda: f"({ring()})"):
        with wrapped(bell, ring=lambda ring: lambda: f"[{ring()}]"):
            assert bell.ring() == "[(ring)]"
        assert bell.ring() == "(ring)"
    assert bell.ring() == "ring"
    assert not vars(bell)
