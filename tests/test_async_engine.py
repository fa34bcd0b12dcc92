"""AsyncEngine: streams that end as they should, whoever leaves early, and however it is closed."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

from tests.in_a_loop import GREEDY, LONG, held, run, saying_hello
from tests.patience import SECONDS
from vtcore.errors import ArgumentError, PromptError, VtcoreError


@pytest.fixture(params=[False, True], ids=["", "async scheduling"])
def llm(request, tmp_path, monkeypatch):
    with saying_hello(tmp_path, monkeypatch, async_scheduling=request.param) as made:
        yield made


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


def test_leaving_the_block_aborts(llm, monkeypatch):
    left = held(llm, monkeypatch)

    async def use(engine):
        async with await engine.submit("ab", LONG) as stream:
            async for _ in stream:
                break
        left.set()
        while engine.num_unfinished:
            await asyncio.sleep(0.001)
        return [d async for d in stream]

    assert len(run(llm, use)) < LONG.max_tokens


def test_a_cancelled_reader_frees_what_it_held(llm, monkeypatch):
    cancelled = held(llm, monkeypatch)

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
        cancelled.set()
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


def test_an_id_that_runs_is_refused_and_the_first_one_goes_on(llm, monkeypatch):
    both = held(llm, monkeypatch)

    async def use(engine):
        first = await engine.submit("ab", LONG, request_id="same")
        second = await engine.submit("ab", GREEDY, request_id="same")
        both.set()
        with pytest.raises(ArgumentError, match="'same' is running"):
            await second.output()
        return await first.output()

    assert len(run(llm, use).outputs[0].token_ids) == LONG.max_tokens


def test_two_readers_share_a_stream_and_both_come_to_its_end(llm):
    async def use(engine):
        stream = await engine.submit("ab", GREEDY)

        async def read():
            return [d.text async for d in stream]

        return [text for texts in await asyncio.gather(read(), read()) for text in texts]

    assert sorted("".join(run(llm, use))) == sorted("hello")


def test_another_loop_is_refused_a_stream_that_would_never_come(llm):
    async def use(engine):
        stream = await engine.submit("ab", GREEDY)
        with pytest.raises(VtcoreError, match="read in another event loop"):
            await asyncio.to_thread(asyncio.run, stream.output())
        return await stream.output()

    assert run(llm, use).outputs[0].text == "hello"


@pytest.mark.parametrize("name", [["a", "list"], 5, ""])
def test_a_name_that_is_no_text_is_refused_and_others_are_served(llm, name):
    async def use(engine):
        with pytest.raises(ArgumentError, match="request_id is"):
            await engine.submit("ab", GREEDY, request_id=name)
        return await (await engine.submit("ab", GREEDY)).output()

    assert run(llm, use).outputs[0].text == "hello"


def test_what_comes_while_it_closes_is_refused(llm, monkeypatch):
    reached, step = threading.Event(), llm.engine.step
    monkeypatch.setattr(llm.engine, "step", lambda: (reached.set(), time.sleep(0.02), step())[2])

    async def late(engine):
        with pytest.raises(VtcoreError, match="closed"):
            await (await engine.submit("ab", LONG)).output()

    async def use(engine):
        await engine.submit("ab", LONG)
        await asyncio.to_thread(reached.wait, SECONDS)
        await asyncio.gather(engine.close(), *(late(engine) for _ in range(4)))

    run(llm, use)


def set_once_closed(engine, free):
    """From a thread of its own, as closing waits for the step at hand."""

    def watch():
        while engine.healthy:
            time.sleep(0.001)
        free.set()

    threading.Thread(target=watch).start()


def test_closing_leaves_alone_what_others_ask_of_the_llm(llm, monkeypatch):
    free, stream = held(llm, monkeypatch), llm.stream("ab", LONG)
    next(stream)

    async def use(engine):
        set_once_closed(engine, free)
        await engine.submit("ab", GREEDY)

    with pytest.raises(AssertionError):  # of `run`: the other request is still there
        run(llm, use)
    assert len(list(stream)) == LONG.max_tokens - 1


def test_who_waits_hears_what_another_thread_has_computed(llm, monkeypatch):
    async def use(engine):
        monkeypatch.setattr(engine, "_step", lambda: time.sleep(0.001))  # its own thread computes nothing
        stream = await engine.submit("ab", GREEDY)
        while not engine.num_unfinished:
            await asyncio.sleep(0.001)
        assert llm.generate("ab", LONG)
        return await stream.output()

    assert run(llm, use).outputs[0].text == "hello"


def test_closing_the_llm_ends_the_streams(llm, monkeypatch):
    free = held(llm, monkeypatch)

    async def use(engine):
        stream = await engine.submit("ab", LONG)
        await anext(stream)
        await asyncio.to_thread(llm.close)
        free.set()
        with pytest.raises(VtcoreError, match="closed before the request ended"):
            await stream.output()
        with pytest.raises(VtcoreError, match="closed"):
            await engine.submit("ab", GREEDY)

    run(llm, use)


def test_closing_ends_what_runs_and_refuses_what_comes(llm, monkeypatch):
    free = held(llm, monkeypatch)

    async def use(engine):
        stream = await engine.submit("ab", LONG)
        set_once_closed(engine, free)
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
