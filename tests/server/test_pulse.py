"""An engine that hangs is told from one that computes for long, and is replaced."""

import asyncio
import itertools
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import zmq
import zmq.asyncio
from starlette.testclient import TestClient

from tests.gate import Gate
from tests.patience import SECONDS
from tests.server.stand_ins import Engine
from vtcore.errors import EngineDeadError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.sampling_params import SamplingParams
from vtcore.server import pulse, remote
from vtcore.server.app import application
from vtcore.server.config import ServerConfig
from vtcore.server.process import EngineProcess
from vtcore.server.pulse import Pulse, place, silence
from vtcore.server.remote import RemoteEngine
from vtcore.server.wire import Ready
from vtcore.text.load import find_tokenizer

LONG = SamplingParams(max_tokens=400, ignore_eos=True)


def test_it_beats_where_something_was_done(monkeypatch):
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.01)
    done = [0, 0, 1, 1, 2]
    with zmq.Context() as context, context.socket(zmq.PAIR) as heard:
        heard.bind(place("inproc://engine"))
        with Pulse(context, "inproc://engine", lambda: done.pop(0) if len(done) > 1 else done[0]):
            for _ in range(3):
                assert heard.poll(SECONDS * 1000)
                heard.recv()
        assert (done, heard.poll(0)) == ([2], 0)


def test_silence_is_what_nothing_breaks():
    """Of ten parts of the time none may have a beat, in a row."""
    beats = []

    async def use():
        with zmq.asyncio.Context() as context, context.socket(zmq.PAIR) as heard, context.socket(zmq.PAIR) as beating:
            heard.bind("inproc://a")
            beating.connect("inproc://a")
            waiting = asyncio.create_task(silence(heard, 0.5, lambda: beats.append(1)))
            for _ in range(3):
                await asyncio.sleep(0.1)
                await beating.send(b"")
                assert not waiting.done()
            await waiting

    asyncio.run(use())
    assert len(beats) == 3


def test_an_engine_that_hangs_is_replaced(model, tmp_path, caplog, monkeypatch):
    hangs, gate = asyncio.Event(), Gate(tmp_path / "gate")

    async def heard_nothing(*_):
        await hangs.wait()
        hangs.clear()

    monkeypatch.setattr(remote, "silence", heard_nothing)

    async def use():
        engine = RemoteEngine(EngineProcess(str(model), {"providers": gate.providers, "capture": False}, 7))
        try:
            await engine.start()
            gate.shut(lookups=10)
            stream, before = await engine.submit([97], LONG, request_id="a"), engine.process.pid
            os.kill(before, signal.SIGSTOP)
            asked = asyncio.create_task(engine.call("ping", SECONDS))
            hangs.set()
            gate.open()
            with pytest.raises(EngineDeadError, match="it is being started again"):
                async for _ in stream:
                    pass
            with pytest.raises(EngineDeadError):
                await asked
            while not engine.healthy:
                await asyncio.sleep(0.01)
            assert engine.process.pid != before
            assert await engine.call("ping", SECONDS)
        finally:
            await engine.close()

    asyncio.run(use())
    assert "has got nothing done for 7 seconds" in caplog.text


@pytest.mark.parametrize(("silence", "healthy", "status"), [(0.5, True, 200), (300.0, True, 503), (0.5, False, 503)])
def test_a_step_that_is_long_is_no_illness(model, silence, healthy, status):
    class Busy(Engine):
        async def call(self, name, seconds):
            raise EngineDeadError("it has not answered")

    engine, checkpoint = Busy(), open_checkpoint(model)
    engine.silence, engine.healthy = silence, healthy
    with TestClient(application(engine, checkpoint, find_tokenizer(checkpoint), ServerConfig(names=["tiny"]))) as client:
        assert client.get("/health").status_code == status


def test_it_ends_where_nobody_listens(monkeypatch):
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.001)
    counted = itertools.count()
    with zmq.Context() as context, context.socket(zmq.PAIR) as deaf:
        deaf.set_hwm(1)
        deaf.bind(place("inproc://engine"))
        context.sockopts[zmq.SNDHWM] = 1
        beating = Pulse(context, "inproc://engine", lambda: next(counted))
        ending = threading.Thread(target=beating.__exit__, args=(None, None, None), daemon=True)
        beating.__enter__()
        while next(counted) < 100:
            time.sleep(0.001)
        ending.start()
        ending.join(SECONDS)
        assert not ending.is_alive()


def test_loading_may_take_any_time(monkeypatch):
    asked, killed = [], []

    async def nothing_heard(heard, seconds, beat):
        asked.append(seconds)

    monkeypatch.setattr(remote, "silence", nothing_heard)

    async def use():
        engine = RemoteEngine(SimpleNamespace(hang_seconds=3, kill=lambda: killed.append(1)))
        watching = asyncio.create_task(engine._watch(None))
        await asyncio.sleep(0.01)
        assert (asked, killed) == ([], [])
        engine._heard(Ready({}))
        await watching

    asyncio.run(use())
    assert (asked, killed) == ([3], [1])
