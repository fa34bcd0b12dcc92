"""AsyncEngine: streams that end as they should, whoever leaves early, and whatever fails."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from tests.scripted import script
from tests.tiny import EOS, Bytes
from vtcore import llm as module
from vtcore.async_engine import AsyncEngine
from vtcore.errors import ArgumentError, PromptError, VtcoreError
from vtcore.llm import LLM
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)
LONG = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
SAYS = [32, *b"hello", EOS]  # after a prompt of two tokens: hello


@pytest.fixture(params=[False, True], ids=["", "async scheduling"])
def llm(request, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_tokenizer", lambda checkpoint: Bytes())
    with LLM(script(tmp_path / "script", SAYS), providers="reference", async_scheduling=request.param) as made:
        yield made


def run(llm, use):
    """What a coroutine function makes of an engine. Nothing may be left afterwards."""

    async def whole():
        engine = AsyncEngine(llm)
        try:
            return await use(engine)
        finally:
            await asyncio.wait_for(engine.close(), 10)
            assert (engine.num_unfinished, engine.healthy, llm.engine.idle) == (0, False, True)
            assert llm.engine.scheduler.kv.usage == 0

    return asyncio.run(asyncio.wait_for(whole(), 30))


def test_a_stream_is_what_generate_gives(llm):
    async def use(engine):
        stream = await engine.submit("ab", GREEDY)
        deltas = [d async for d in stream]
        return deltas, await stream.output()

    deltas, output = run(llm, use)
    assert output.outputs == llm.generate("ab", GREEDY)[0].outputs
    assert "".join(d.text for d in deltas) == "hello"
    assert [d.finish_reason for d in deltas] == [None] * 5 + ["stop"]


def test_many_at_once_are_each_as_alone(llm):
    prompts = [[int(c) for c in b"ab" * n] for n in range(1, 20)]

    async def use(engine):
        streams = await asyncio.gather(*(engine.submit(p, GREEDY) for p in prompts))
        return await asyncio.gather(*(s.output() for s in streams))

    together = run(llm, use)
    assert [o.outputs[0].token_ids for o in together] == [llm.generate([p], GREEDY)[0].outputs[0].token_ids for p in prompts]


def test_leaving_the_block_aborts(llm):
    async def use(engine):
        async with await engine.submit("ab", LONG) as stream:
            async for _ in stream:
                break
        while engine.num_unfinished:
            await asyncio.sleep(0.001)
        return [d async for d in stream]

    assert len(run(llm, use)) < LONG.max_tokens


def test_a_cancelled_reader_frees_what_it_held(llm):
    async def read(engine):
        async with await engine.submit("ab", LONG) as stream:
            return [d async for d in stream]

    async def use(engine):
        task = asyncio.create_task(read(engine))
        while not engine.num_unfinished:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


def test_bad_prompts_and_parameters_are_refused_before_they_are_queued(llm):
    async def use(engine):
        with pytest.raises(PromptError, match="no tokens"):
            await engine.submit("", GREEDY)
        with pytest.raises(ArgumentError, match="must be SamplingParams"):
            await engine.submit("ab", {"temperature": 0})
        return engine.num_unfinished

    assert run(llm, use) == 0


def test_an_id_that_runs_is_refused_and_the_first_one_goes_on(llm):
    async def use(engine):
        first = await engine.submit("ab", LONG, request_id="same")
        with pytest.raises(ArgumentError, match="'same' is running"):
            await (await engine.submit("ab", GREEDY, request_id="same")).output()
        return await first.output()

    assert len(run(llm, use).outputs[0].token_ids) == LONG.max_tokens


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


def test_two_readers_share_a_stream_and_both_come_to_its_end(llm):
    async def use(engine):
        stream = await engine.submit("ab", GREEDY)

        async def read():
            return [d.text async for d in stream]

        return [text for texts in await asyncio.gather(read(), read()) for text in texts]

    assert sorted("".join(run(llm, use))) == sorted("hello")


def test_a_fault_is_told_to_whoever_asks_later_too(llm, monkeypatch):
    monkeypatch.setattr(llm.engine.runner, "run", lambda step: (_ for _ in ()).throw(OSError("the device is gone")))

    async def use(engine):
        stream = await engine.submit("ab", GREEDY)
        for _ in range(2):
            with pytest.raises(OSError, match="device is gone"):
                await stream.output()
        return [d async for d in stream]

    assert run(llm, use) == []


def test_another_loop_is_refused_a_stream_that_would_never_come(llm):
    async def use(engine):
        stream = await engine.submit("ab", GREEDY)
        with pytest.raises(VtcoreError, match="read in another event loop"):
            await asyncio.to_thread(asyncio.run, stream.output())
        return await stream.output()

    assert run(llm, use).outputs[0].text == "hello"


def test_a_plan_that_fails_once_is_made_again(llm, monkeypatch):
    once, plan = [MemoryError("no room now")], llm.engine.scheduler.plan
    monkeypatch.setattr(llm.engine.scheduler, "plan", lambda: (_ for _ in ()).throw(once.pop()) if once else plan())

    async def use(engine):
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


@pytest.mark.parametrize("name", [["a", "list"], 5, ""])
def test_a_name_that_is_no_text_is_refused_and_others_are_served(llm, name):
    async def use(engine):
        with pytest.raises(ArgumentError, match="request_id is"):
            await engine.submit("ab", GREEDY, request_id=name)
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


def test_what_comes_while_it_closes_is_refused(llm, monkeypatch):
    reached, step = threading.Event(), llm.engine.step
    monkeypatch.setattr(llm.engine, "step", lambda: (reached.set(), time.sleep(0.02), step())[2])

    async def late(engine):
        with pytest.raises(VtcoreError, match="closed"):
            await (await engine.submit("ab", LONG)).output()

    async def use(engine):
        await engine.submit("ab", LONG)
        await asyncio.to_thread(reached.wait, 10)
        await asyncio.gather(engine.close(), *(late(engine) for _ in range(4)))

    run(llm, use)


def test_closing_leaves_alone_what_others_ask_of_the_llm(llm):
    stream = llm.stream("ab", LONG)
    next(stream)
    with pytest.raises(AssertionError):  # of `run`: the other request is still there
        run(llm, lambda engine: engine.submit("ab", GREEDY))
    assert len(list(stream)) == LONG.max_tokens - 1


def test_who_waits_hears_what_another_thread_has_computed(llm, monkeypatch):
    async def use(engine):
        stream = await engine.submit("ab", GREEDY)
        monkeypatch.setattr(engine, "_step", lambda: time.sleep(0.001))
        while not engine.num_unfinished:
            await asyncio.sleep(0.001)
        assert llm.generate("ab", LONG)
        return await stream.output()

    assert run(llm, use).outputs[0].text == "hello"


def test_closing_the_llm_ends_the_streams(llm):
    async def use(engine):
        stream = await engine.submit("ab", LONG)
        await anext(stream)
        await asyncio.to_thread(llm.close)
        with pytest.raises(VtcoreError, match="closed before the request ended"):
            await stream.output()
        with pytest.raises(VtcoreError, match="closed"):
            await engine.submit("ab", GREEDY)

    run(llm, use)


def test_closing_ends_what_runs_and_refuses_what_comes(llm):
    async def use(engine):
        stream = await engine.submit("ab", LONG)
        await engine.close()
        with pytest.raises(VtcoreError, match="closed before the request ended"):
            await stream.output()
        with pytest.raises(VtcoreError, match="is closed"):
            await engine.submit("ab", GREEDY)

    run(llm, use)


def test_several_loops_share_an_engine(llm):
    texts = []

    async def use(engine):
        def other():
            async def ask():
                return (await (await engine.submit("ab", GREEDY)).output()).outputs[0].text

            texts.append(asyncio.run(ask()))

        threads = [threading.Thread(target=other) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            await asyncio.to_thread(t.join)

    run(llm, use)
    assert texts == ["hello"] * 4


def test_a_loop_that_closed_without_reading_leaves_nothing(llm):
    async def use(engine):
        async def leave():
            await engine.submit("ab", LONG)

        await asyncio.to_thread(asyncio.run, leave())
        gc.collect()
        while engine.num_unfinished:
            await asyncio.sleep(0.001)

    run(llm, use)
