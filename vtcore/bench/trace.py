"""Where the time goes: by op where ops run one by one, and inside native code or outside of it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vtcore.dispatch import Dispatcher
from vtcore.engine import Engine
from vtcore.op import Call, Op


class Trace:
    """While its block is open, every op that an engine runs by itself, outside of recorded steps, is timed."""

    def __init__(self, engine: Engine) -> None:
        self.dispatcher = dispatcher_of(engine)
        self.seconds, self.calls = defaultdict[str, float](float), Counter[str]()

    def __enter__(self) -> Trace:
        vars(self.dispatcher)["run"] = self._run
        return self

    def __exit__(self, *_: object) -> None:
        del vars(self.dispatcher)["run"]

    def _run(self, op: Op, call: Call) -> Any:
        start = time.perf_counter()
        try:
            return Dispatcher.run(self.dispatcher, op, call)
        finally:
            self.seconds[op.name] += time.perf_counter() - start
            self.calls[op.name] += 1


class NativeClock:
    """Seconds spent in native calls of the providers' thread teams."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, run: Callable[..., None]) -> Callable[..., None]:
        """The same function, with its time counted."""

        def call(*arguments: Any, **named: Any) -> None:
            start = time.perf_counter()
            run(*arguments, **named)
            self.seconds += time.perf_counter() - start

        return call


@contextmanager
def native_time(engine: Engine) -> Iterator[NativeClock]:
    """While open, the calls of every thread team that the engine's providers have are timed."""
    clock, teams = NativeClock(), teams_of(engine)
    for team in teams:
        vars(team)["run"] = clock.timed(team.run)
    try:
        yield clock
    finally:
        for team in teams:
            del vars(team)["run"]


def teams_of(engine: Engine) -> list[Any]:
    """The thread teams through which providers run native code; empty where there are none."""
    return [p.team for p in dispatcher_of(engine).providers if hasattr(p, "team")]


def dispatcher_of(engine: Engine) -> Dispatcher:
    """The dispatcher behind an engine, under whatever rounds."""
    return engine.forward if isinstance(engine.forward, Dispatcher) else engine.forward.dispatcher
