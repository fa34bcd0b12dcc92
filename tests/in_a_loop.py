"""An LLM that says hello, and what a coroutine makes of an AsyncEngine over it."""

from __future__ import annotations

import asyncio
import itertools
import threading

from tests.patience import SECONDS
from tests.scripted import script
from tests.tiny import EOS, Bytes
from vtcore import llm as module
from vtcore.async_engine import AsyncEngine
from vtcore.llm import LLM
from vtcore.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=20)
LONG = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
SAYS = [32, *b"hello", EOS]  # after a prompt of two tokens: hello


def saying_hello(tmp_path, monkeypatch, **options) -> LLM:
    """It has a token a byte, and no fast kernels."""
    monkeypatch.setattr(module, "find_tokenizer", lambda checkpoint: Bytes())
    return LLM(script(tmp_path / "script", SAYS), providers="reference", **options)


def held(llm, monkeypatch, steps=10):
    """An event without which the engine takes no more than so many steps: whatever a busy machine does, no request ends before it."""
    free, step, taken = threading.Event(), llm.engine.step, itertools.count()

    def one():
        assert next(taken) < steps or free.wait(SECONDS), "nobody let the engine go on"
        return step()

    monkeypatch.setattr(llm.engine, "step", one)
    return free


def run(llm, use):
    """What a coroutine function makes of an engine. Nothing may be left afterwards."""

    async def whole():
        engine = AsyncEngine(llm)
        try:
            return await use(engine)
        finally:
            await asyncio.wait_for(engine.close(), SECONDS)
            assert (engine.num_unfinished, engine.healthy, llm.engine.idle) == (0, False, True)
            assert llm.engine.scheduler.kv.usage == 0

    return asyncio.run(asyncio.wait_for(whole(), 2 * SECONDS))
