"""AsyncEngine: whoever waits for what has failed is told, and nobody else."""

from __future__ import annotations

import asyncio

import pytest

from tests.in_a_loop import GREEDY, LONG, run, saying_hello
from tests.tiny import Bytes
from vtcore.errors import VtcoreError


@pytest.fixture(params=[False, True], ids=["", "async scheduling"])
def llm(request, tmp_path, monkeypatch):
    with saying_hello(tmp_path, monkeypatch, async_scheduling=request.param) as made:
        yield made


def test_a_fault_of_one_request_ends_that_one(llm, monkeypatch):
    class Broken(type(Bytes().stream())):
        def push(self, i):
            raise KeyError("a broken vocabulary")

    async def use(engine):
        good = await engine.submit("ab", LONG)
        monkeypatch.setattr(Bytes, "stream", lambda self, skip_special_tokens=True: Broken(True))
        bad = await engine.submit("ab", GREEDY)
        with pytest.raises(KeyError, match="vocabulary"):
            await bad.output()
        return await good.output()

    assert len(run(llm, use).outputs[0].token_ids) == LONG.max_tokens


def test_a_fault_of_a_step_ends_those_in_it_and_the_next_are_served(llm, monkeypatch):
    once = [OSError("the device is gone")]
    model = llm.engine.runner.model
    monkeypatch.setattr(llm.engine.runner, "model", lambda *a, **k: (_ for _ in ()).throw(once.pop()) if once else model(*a, **k))

    async def use(engine):
        with pytest.raises(OSError, match="device is gone"):
            await (await engine.submit("ab", GREEDY)).output()
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_a_kernel_that_ends_the_thread_ends_the_requests_in_its_step(llm, monkeypatch, kind):
    once, step = [kind("enough")], llm.engine.runner.run
    monkeypatch.setattr(llm.engine.runner, "run", lambda prepared: (_ for _ in ()).throw(once.pop()) if once else step(prepared))

    async def use(engine):
        with pytest.raises(VtcoreError, match="enough"):
            await (await engine.submit("ab", GREEDY)).output()
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


def test_what_can_t_be_planned_is_told_to_who_waits_and_the_next_are_served(llm, monkeypatch):
    plan, waiting = llm.engine.scheduler.plan, llm.engine.scheduler.waiting

    def fall():
        if any(r.prompt_token_ids == [7] for r in waiting):
            raise LookupError("of a request that nobody can plan")
        return plan()

    async def use(engine):
        monkeypatch.setattr(llm.engine.scheduler, "plan", fall)
        with pytest.raises(LookupError, match="nobody can plan"):
            await (await engine.submit([7], GREEDY)).output()
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


def test_a_fault_is_told_to_whoever_asks_later_too(llm, monkeypatch):
    monkeypatch.setattr(llm.engine.runner, "run", lambda step: (_ for _ in ()).throw(OSError("the device is gone")))

    async def use(engine):
        stream = await engine.submit("ab", GREEDY)
        for _ in range(2):
            with pytest.raises(OSError, match="device is gone"):
                await stream.output()
        return [d async for d in stream]

    assert run(llm, use) == []


def test_a_plan_that_fails_once_is_made_again(llm, monkeypatch):
    once, plan = [MemoryError("no room now")], llm.engine.scheduler.plan
    monkeypatch.setattr(llm.engine.scheduler, "plan", lambda: (_ for _ in ()).throw(once.pop()) if once else plan())

    async def use(engine):
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # it is raised on purpose
def test_whoever_waits_for_a_thread_that_died_is_told(llm, monkeypatch):
    async def use(engine):
        monkeypatch.setattr(engine, "_hand_over", lambda: (_ for _ in ()).throw(SystemError("a fault in here")))
        stream = await engine.submit("ab", LONG)
        with pytest.raises(SystemError, match="in here"):
            await stream.output()
        with pytest.raises(VtcoreError, match="is closed"):
            await engine.submit("ab", GREEDY)

    run(llm, use)
