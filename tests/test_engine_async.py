"""Steps that are planned while others compute: the same answers, late ends without a trace, and faults that reach whom they concern."""

import threading

import numpy as np
import pytest

from tests.patience import SECONDS
from tests.tiny import EOS, Bytes, Script, drain, engine
from vtcore.errors import NotANumberError
from vtcore.flight import Flight
from vtcore.sampling_params import SamplingParams
from vtcore.tensor import of

GREEDY = SamplingParams(temperature=0, max_tokens=20)
LONG = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
HELLO = [32, *b"hello, world", EOS]  # after a prompt of two tokens
MANY = [
    {"temperature": 0},
    {"temperature": 1.5, "seed": 1, "n": 3, "logprobs": 2},
    {"temperature": 1.5, "seed": 2, "presence_penalty": 0.5, "repetition_penalty": 1.3},
    {"temperature": 0, "stop": "o, w", "prompt_logprobs": 1},
    {"temperature": 0, "stop_token_ids": [ord("l")], "min_tokens": 4},
    {"max_tokens": 0, "prompt_logprobs": 0},
    {"temperature": 0, "bad_words": ["lo"], "logprobs": 1},
]


def both(text=HELLO, **limits):
    """An engine, and one that plans ahead."""
    return [engine(Script(text), tokenizer=Bytes(), async_scheduling=a, **limits) for a in (False, True)]


def ahead(text=HELLO, **limits):
    return both(text, **limits)[1]


def gone(e):
    """Whether nothing is left of what it did."""
    e.rest()
    return e.idle and e.scheduler.kv.usage == 0


@pytest.mark.feature("Async / overlap scheduling")
@pytest.mark.parametrize("limits", [{}, {"pages": 17, "max_num_batched_tokens": 9}, {"enable_prefix_caching": False, "max_num_seqs": 2}])
def test_answers_have_the_same_bits(limits):
    said = []
    for e in both(**limits):
        submissions = [e.submit(list(b"ab" * n), SamplingParams(**{"max_tokens": 9} | params)) for n, params in enumerate(MANY, start=1)]
        drain(e)
        assert gone(e)
        said.append([(s.output().outputs, s.output().prompt_logprobs) for s in submissions])
    assert said[0] == said[1]


def test_logits_have_the_same_bits():
    kept = []
    for e in both(max_num_batched_tokens=8):
        submission = e.submit([7] * 20, SamplingParams(temperature=0, max_tokens=3), keep_logits=True)
        drain(e)
        kept.append(np.concatenate(submission.logits))
    assert np.array_equal(*kept)


@pytest.mark.feature("Async / overlap scheduling")
def test_a_step_is_planned_while_the_one_before_it_computes():
    e, planned = ahead(), threading.Semaphore(0)
    plan = e.scheduler.plan_ahead
    e.scheduler.plan_ahead = lambda: (plan(), planned.release())[0]
    e.runner.model.before = lambda batch: planned.acquire(timeout=SECONDS) or pytest.fail("nobody plans")
    submission = e.submit(list(b"ab"), GREEDY)
    assert drain(e)
    assert submission.output().outputs[0].text == "hello, world"


@pytest.mark.parametrize(
    ("params", "late"),
    [({}, 0), ({"max_tokens": 3}, 0), ({"stop_token_ids": [ord("o")]}, 0), ({"stop": "o, w"}, 1), ({"max_tokens": 0}, 0)],
)
def test_only_an_end_that_the_text_tells_costs_a_step(params, late):
    calls = []
    for e in both():
        submission = e.submit(list(b"ab"), SamplingParams(**{"temperature": 0, "max_tokens": 20} | params))
        drain(e)
        assert gone(e)
        calls.append(e.runner.model.calls)
    assert calls[1] == calls[0] + late
    assert submission.output().outputs[0].token_ids == list(b"hello, world"[: len(submission.output().outputs[0].token_ids)]) or not params


def test_nobody_waits_for_a_place_longer_than_without():
    calls = []
    for e in both(max_num_seqs=1):
        for _ in range(4):
            e.submit(list(b"ab"), SamplingParams(temperature=0, max_tokens=3))
        drain(e)
        calls.append(e.runner.model.calls)
    assert calls[0] == calls[1]


class Gate:
    """Holds a forward until it is opened."""

    def __init__(self, e):
        self.reached, self.open = threading.Event(), threading.Event()
        e.runner.model.before = self

    def __call__(self, batch):
        self.reached.set()
        assert self.open.wait(SECONDS)


@pytest.mark.feature("Async / overlap scheduling")
def test_what_an_aborted_request_still_writes_is_nobody_elses():
    e = ahead(pages=13, max_num_seqs=2, enable_prefix_caching=False)
    e.submit(list(b"ab" * 8), GREEDY, request_id="first")
    gate = Gate(e)
    e.step()
    assert gate.reached.wait(SECONDS)
    pages = set(e.scheduler.kv.read(e.scheduler.running[0], *e.scheduler.kv.groups, 0))
    e.abort("first")
    second = e.submit(list(b"cd" * 6), GREEDY)
    e.scheduler.plan_ahead()
    assert not pages.intersection(e.scheduler.kv.read(second.requests[0], *e.scheduler.kv.groups, 0))
    gate.open.set()
    drain(e)
    assert second.output().outputs[0].text == "ld"
    assert gone(e)


def test_an_aborted_request_gets_no_further_token():
    e = ahead()
    submission = e.submit(list(b"ab"), GREEDY)
    for _ in range(4):
        e.step()
    e.abort(submission.request_id)
    text = submission.output().outputs[0].text
    assert not e.idle
    assert drain(e) == []
    assert gone(e)
    assert (submission.output().outputs[0].text, text) == ("hel", "hel")


def fail_at(e, call):
    """Its model raises in that call, once."""
    model = e.runner.model

    def before(batch):
        if model.calls == call:
            raise OSError("the device is gone")

    model.before = before


@pytest.mark.feature("Async / overlap scheduling")
@pytest.mark.parametrize("call", [1, 2, 3, 4])
def test_after_a_fault_everybody_goes_on_where_he_was(call):
    e = ahead(max_num_batched_tokens=8)
    first = e.submit(list(b"ab" * 6), SamplingParams(temperature=0, max_tokens=5))
    second = e.submit(list(b"ab" * 6), SamplingParams(temperature=0, max_tokens=5))
    plain = engine(Script(HELLO), tokenizer=Bytes())
    alone = plain.submit(list(b"ab" * 6), SamplingParams(temperature=0, max_tokens=5))
    drain(plain)
    fail_at(e, call)
    with pytest.raises(OSError, match="device is gone"):
        drain(e)
    drain(e)
    assert first.output().outputs == second.output().outputs == alone.output().outputs
    assert gone(e)


def test_a_request_that_was_only_planned_did_not_begin():
    e = ahead()
    e.submit(list(b"ab"), GREEDY)
    fail_at(e, 1)
    e.step()
    second = e.submit(list(b"cd"), GREEDY)
    with pytest.raises(OSError, match="device is gone"):
        e.step()
    assert second.first_scheduled is None
    drain(e)
    assert second.output().outputs[0].text == "hello, world"


def test_a_fault_of_a_step_for_those_who_left_is_nobodys():
    e = ahead()
    e.submit(list(b"ab"), GREEDY, request_id="gone")
    fail_at(e, 1)
    e.step()
    e.abort("gone")
    second = e.submit(list(b"cd"), GREEDY)
    drain(e)
    assert second.output().outputs[0].text == "hello, world"


def test_logits_that_are_no_numbers_end_their_request_alone():
    table = np.zeros((256, 257), np.float32)
    table[5] = np.nan
    model = Script(HELLO)
    model.table = of(table + model.table.numpy())
    e = engine(model, tokenizer=Bytes(), async_scheduling=True)
    bad, good = e.submit(list(b"ab"), GREEDY), e.submit(list(b"ab"), SamplingParams(temperature=0, max_tokens=3))
    drain(e)
    with pytest.raises(NotANumberError, match="not numbers"):
        bad.output()
    assert (bad.requests[0].text, good.output().outputs[0].text) == ("hell", "hel")
    assert gone(e)


def test_an_interrupt_leaves_a_step_on_its_way(monkeypatch):
    e, wait, once = ahead(), Flight.wait, [KeyboardInterrupt()]
    submission = e.submit(list(b"ab"), GREEDY)
    e.step()
    monkeypatch.setattr(Flight, "wait", lambda self: (_ for _ in ()).throw(once.pop()) if once else wait(self))
    with pytest.raises(KeyboardInterrupt):
        e.step()
    drain(e)
    assert submission.output().outputs[0].text == "hello, world"


def test_a_reset_gives_the_tokens_of_a_step_in_flight_to_the_next_one():
    e = ahead()
    submission = e.submit(list(b"ab"), GREEDY)
    deltas = e.step() + e.step()
    assert e.reset_prefix_cache(reset_running_requests=True)
    deltas += drain(e)
    assert "".join(d.text for d in deltas) == submission.output().outputs[0].text == "hello, world"
    assert [i for d in deltas for i in d.token_ids] == submission.output().outputs[0].token_ids


def test_closing_waits_for_the_step_and_ends_the_thread():
    before, e = set(threading.enumerate()), ahead()
    e.submit(list(b"ab"), LONG)
    gate = Gate(e)
    e.step()
    assert gate.reached.wait(SECONDS)
    [thread] = {t for t in threading.enumerate() if t.name.startswith("vtcore-step")} - before
    threading.Timer(0.05, gate.open.set).start()
    e.close()
    assert not thread.is_alive()
    assert e.idle


def test_without_it_no_thread_is_made():
    before = set(threading.enumerate())  # of which some may end meanwhile
    e = engine(Script(HELLO), tokenizer=Bytes())
    e.submit(list(b"ab"), GREEDY)
    drain(e)
    assert set(threading.enumerate()) <= before
