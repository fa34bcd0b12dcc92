"""What an engine does, on a line of time: steps, forwards, ops, copies and declines in the trace format of Chrome, which Perfetto reads.

Format: the "Trace Event Format", JSON object form: complete events (ph X: begin and duration in us) and instants (ph i)."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from vtcore.engine import Engine
from vtcore.memory import Memory
from vtcore.op import Call, Op
from vtcore.provider import Decline
from vtcore.rounding import Rounding
from vtcore.runner import Prepared
from vtcore.scheduler.plan import Plan
from vtcore.storage import Storage
from vtcore.tensor import Tensor
from vtcore.watched import Method, dispatcher_of, wrapped
from vtcore.written import writing

MOST_EVENTS = 2_000_000  # about 600 bytes each
MOST_SHOWN = 4  # arrays of a list that are written out
HOW = {
    "clock": "host, microseconds; an op lasts from its call until its provider returned, with the copies that it needed",
    "forward": "mode replayed: a recorded step was run again, and its ops are only counted (args.ops)",
    "threads": "a slice lies on the thread that it ran on: with async_scheduling forwards have one of their own; threads of a provider's "
    "own are not seen",
}


class Timeline:
    """`with Timeline(engine) as t: ...; t.write(path)`: all that the engine does while the block is open.

    A step holds a forward, the ops of the forward, and those that choose tokens; with async_scheduling these lie beside the steps. Under
    rounding an op holds those that it is made of."""

    def __init__(self, engine: Engine, about: Mapping[str, Any] | None = None) -> None:
        self.engine, self.about, self.events, self.dropped = engine, dict(about or {}), list[dict[str, Any]](), 0
        self.dispatcher = dispatcher_of(engine)
        self._threads: dict[int, str] = {}
        self._start = time.perf_counter()
        self._mode = ""  # of the forward that is being run

    def __enter__(self) -> Timeline:
        self._stack = ExitStack()
        watch = self._stack.enter_context
        watch(wrapped(self.engine, step=lambda step: self._timed("step", step)))
        watch(wrapped(self.engine.runner, run=self._forward))
        watch(wrapped(self.dispatcher, run=self._op, moved=self._moved, declined=self._declined))
        if isinstance(self.engine.forward, Rounding):
            watch(wrapped(self.engine.forward, run=self._rounded))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def write(self, path: Path) -> None:
        """As JSON. Raises OSError."""
        with writing(path) as file, io.TextIOWrapper(file, "utf-8") as text:
            self.dump(text)

    def dump(self, file: TextIO) -> None:
        """An event a line."""
        metadata = {**self.about, **HOW, "vtcore": _version(), "dropped_events": self.dropped}
        file.write('{"displayTimeUnit": "ms", "metadata": ' + json.dumps(metadata) + ',\n"traceEvents": [\n')
        events = [*self._names(), *sorted(self.events, key=lambda e: (e["tid"], e["ts"], -e.get("dur", 0)))]
        file.write(",\n".join(map(json.dumps, events)) + "\n]}\n")

    def _names(self) -> Iterator[dict[str, Any]]:
        yield {"ph": "M", "name": "process_name", "pid": os.getpid(), "tid": 0, "args": {"name": "vtcore"}}
        for tid, name in self._threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": os.getpid(), "tid": tid, "args": {"name": name}}

    def _timed(self, name: str, run: Method) -> Method:
        """The same function, and a slice for each of its calls."""

        def call(*arguments: Any) -> Any:
            begin = time.perf_counter()
            try:
                return run(*arguments)
            finally:
                self._slice(name, "engine", begin, time.perf_counter(), {})

        return call

    def _forward(self, run: Method) -> Method:
        def call(step: Prepared) -> Any:
            begin, before, self._mode, out = time.perf_counter(), self.dispatcher.ran.total(), "replayed", None
            try:
                out = run(step)
            finally:
                end, ops = time.perf_counter(), self.dispatcher.ran.total() - before
                self._slice("forward", "engine", begin, end, {**_planned(step.plan), "mode": self._mode, "ops": ops})
            return out

        return call

    def _op(self, run: Method) -> Method:
        def call(op: Op, call: Call) -> Any:
            self._mode = "recorded" if self.dispatcher.recorder else "op by op"
            before = {p.name: self.dispatcher.ran[op.name, p.name] for p in self.dispatcher.providers}
            copies, begin, out = self.dispatcher.bytes.total(), time.perf_counter(), None
            try:
                out = run(op, call)
            finally:
                end = time.perf_counter()
                ran = next((n for n, count in before.items() if self.dispatcher.ran[op.name, n] > count), "reference")
                copied = self.dispatcher.bytes.total() - copies
                self._slice(op.name, "op", begin, end, {"provider": ran, "copied_bytes": copied, **_described(call, out)})
            return out

        return call

    def _rounded(self, run: Method) -> Method:
        return lambda op, call: self._timed(f"{op.name} rounded", partial(run, op))(call)

    def _moved(self, moved: Method) -> Method:
        def call(storage: Storage, source: Memory, target: Memory, nbytes: int, seconds: float) -> None:
            moved(storage, source, target, nbytes, seconds)
            self._instant("copy", {"way": f"{source.name}->{target.name}", "bytes": nbytes, "ms": round(seconds * 1e3, 3)})

        return call

    def _declined(self, declined: Method) -> Method:
        def call(decline: Decline) -> None:
            self._instant("decline", {"op": decline.op, "provider": decline.provider, "reason": decline.reason})
            declined(decline)

        return call

    def _slice(self, name: str, category: str, begin: float, end: float, args: dict[str, Any]) -> None:
        self._note(
            {"ph": "X", "name": name, "cat": category, "ts": (us := self._us(begin)), "dur": round(self._us(end) - us, 3), "args": args}
        )

    def _instant(self, name: str, args: dict[str, Any]) -> None:
        self._note({"ph": "i", "s": "t", "name": name, "cat": name, "ts": self._us(time.perf_counter()), "args": args})

    def _us(self, moment: float) -> float:
        return round((moment - self._start) * 1e6, 3)

    def _note(self, event: dict[str, Any]) -> None:
        if len(self.events) >= MOST_EVENTS:
            self.dropped += 1
            return
        tid = threading.get_native_id()
        self._threads.setdefault(tid, threading.current_thread().name)
        self.events.append({**event, "pid": os.getpid(), "tid": tid})


def _planned(plan: Plan) -> dict[str, Any]:
    return {"sequences": len(plan.scheduled), "tokens": sum(s.num_tokens for s in plan.scheduled)}


def _described(call: Call, out: Any) -> dict[str, Any]:
    """Shapes and numbers of a call, and of what came of it."""
    return {"call": {n: _shown(v) for n, v in call.items() if v is not None}, "result": _shown(out)}


def _shown(value: Any) -> Any:
    if isinstance(value, Tensor):
        return f"{value.dtype}[{' '.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return [*map(_shown, value[:MOST_SHOWN]), *([f"and {len(value) - MOST_SHOWN} more"] if len(value) > MOST_SHOWN else [])]
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    return repr(value) if isinstance(value, float) else type(value).__name__


def _version() -> str:
    try:
        return version("vtcore")
    except PackageNotFoundError:  # run from its sources
        return "0"
