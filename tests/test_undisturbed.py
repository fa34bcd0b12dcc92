"""Ctrl-C: held back while something is half changed, raised as soon as it isn't."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import SECONDS
from tests.tiny import EOS, Bytes, Script, drain, engine
from vtcore.sampling_params import SamplingParams
from vtcore.undisturbed import Undisturbed, importing

HELLO = [32, *b"hello, world", EOS]


def interrupt():
    signal.raise_signal(signal.SIGINT)


def test_it_is_raised_on_leaving_the_outermost_block():
    lock, done, usual = Undisturbed(), [], signal.getsignal(signal.SIGINT)

    def nested():
        with lock:
            with lock:
                interrupt()
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        nested()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is usual


def test_around_what_takes_long_it_is_raised_at_once():
    lock, done = Undisturbed(), []

    def inside():
        with lock, lock.disturbable():
            interrupt()
            done.append("too late")

    def before():
        with lock:
            interrupt()
            with lock.disturbable():
                done.append("too late")

    for use in (inside, before):
        with pytest.raises(KeyboardInterrupt):
            use()
    assert done == []


def test_outside_of_it_and_of_the_main_thread_nothing_changes():
    lock = Undisturbed()
    with pytest.raises(KeyboardInterrupt), lock.disturbable():
        interrupt()
    usual = signal.getsignal(signal.SIGINT)

    def inside():
        with lock, lock.disturbable():
            return signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(inside).result() is usual


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_who_ignores_it_goes_on_ignoring_it(handler):
    usual = signal.signal(signal.SIGINT, handler)
    try:
        with Undisturbed():
            assert signal.getsignal(signal.SIGINT) is handler
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_what_is_imported_is_imported_whole(which):
    done = []

    def end(*_):
        raise SystemExit(3)

    def imports():
        with importing():
            signal.raise_signal(which)
            done.append("imported")
        done.append("went on")

    usual = signal.signal(which, end)
    try:
        with pytest.raises(SystemExit):
            imports()
    finally:
        signal.signal(which, usual)
    assert done == ["imported"]


def test_it_is_a_lock():
    lock, entered = Undisturbed(), threading.Event()

    def other():
        with lock:
            entered.set()

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        assert not entered.wait(0.02)
    thread.join(SECONDS)
    assert entered.is_set()


@pytest.mark.feature("Async / overlap scheduling")
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("where", ["launch", "land", "settle", "allocate_slots", "free", "admit", "copies", "model"])
def test_an_interrupt_anywhere_in_a_step_leaves_every_request_as_it_should_be(asynchronous, where):
    e = engine(Script(HELLO), tokenizer=Bytes(), pages=9, max_num_batched_tokens=12, async_scheduling=asynchronous)
    submissions = [e.submit(list(b"ab"), SamplingParams(temperature=0, max_tokens=20)) for _ in range(5)]
    calls = 0

    def now(*_):
        nonlocal calls
        calls += 1
        if calls % 3 == 1 and calls < 30:
            interrupt()

    if where == "model":
        e.runner.model.before = now
    else:
        method = getattr(e.scheduler.kv, where)
        setattr(e.scheduler.kv, where, lambda *a, **k: (now(), method(*a, **k), now())[1])
    interrupts = 0
    while not e.idle:
        try:
            drain(e)
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts
    assert {s.output().outputs[0].text for s in submissions} == {"hello, world"}
    assert e.scheduler.kv.usage == 0
