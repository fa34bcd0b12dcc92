"""Whether the engine's process gets on: one that hangs is alive, so that its end is not to be waited for.

A thread of that process tells of each second in which an op ran, or commands were heard. So a step may take as long as it likes, if no
single op of it does; and a process that was stopped, or waits in a kernel that never ends, is silent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import zmq
import zmq.asyncio

BEAT_SECONDS = 1.0
WINDOWS = 10  # each without a beat, in a row: where both processes were stopped for a while, only one of them is


def place(endpoint: str) -> str:
    """Where an engine's beats are heard, beside the endpoint of its messages."""
    return f"{endpoint}-pulse"


class Pulse:
    """Beats while it is entered, in the engine's process. `progress` changes where something was done; any thread may call it."""

    def __init__(self, context: zmq.Context[Any], endpoint: str, progress: Callable[[], Any]) -> None:
        self._context, self._endpoint, self._progress = context, endpoint, progress
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="vtcore-pulse", daemon=True)

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()

    def _beat(self) -> None:
        before = None
        with self._context.socket(zmq.PAIR) as socket:
            socket.linger = 0
            socket.connect(place(self._endpoint))
            while not self._end.wait(BEAT_SECONDS):
                if (now := self._progress()) != before:
                    before = now
                    with suppress(zmq.Again):  # whoever doesn't listen has enough of them waiting
                        socket.send(b"", zmq.NOBLOCK)


async def silence(heard: zmq.asyncio.Socket, seconds: float, beat: Callable[[], None]) -> None:
    """Until nothing was heard for so many seconds; `beat` is called for everything that is."""
    silent = 0
    while silent < WINDOWS:
        if await heard.poll(round(seconds * 1000 / WINDOWS)):
            await heard.recv()
            beat()
            silent = 0
        else:
            silent += 1
