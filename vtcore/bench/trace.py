"""Where the time goes: by op where ops run one by one, and inside native code or outside of it."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from vtcore.engine import Engine
from vtcore.op import Call, Op
from vtcore.watched import Method, dispatcher_of, wrapped


class Trace:
    """While its block is open, every op that an engine runs by itself, outside of recorded steps, is timed."""

    def __init__(self, engine: Engine) -> None:
        self.dispatcher = dispatcher_of(engine)
        self.seconds, self.calls = defaultdict[str, float](float), Counter[str]()

    def __enter__(self) -> Trace:
        self._stack = ExitStack()
        self._stack.enter_context(wrapped(self.dispatcher, run=self._timed))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _timed(self, run: Method) -> Method:
        def call(op: Op, call: Call) -> Any:
            start = time.perf_counter()
            try:
                return run(op, call)
            finally:
                self.seconds[op.name] += time.perf_counter() - start
                self.calls[op.name] += 1

        return call


class NativeClock:
    """Seconds spent in native calls of the providers' thread teams."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, run: Method) -> Method:
        """The same function, with its time counted."""

        def call(*arguments: Any, **named: Any) -> None:
            start = time.perf_counter()
            run(*arguments, **named)
            self.seconds += time.perf_counter() - start

        return call


@contextmanager
def native_time(engine: Engine) -> Iterator[NativeClock]:
    """While open, the calls of every thread team that the engine's providers have are timed."""
    clock = NativeClock()
    with ExitStack() as stack:
        for team in teams_of(engine):
            stack.enter_context(wrapped(team, run=clock.timed))
        yield clock


def teams_of(engine: Engine) -> list[Any]:
    """The thread teams through which providers run native code; empty where there are none."""
    return [p.team for p in dispatcher_of(engine).providers if hasattr(p, "team")]
