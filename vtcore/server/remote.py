"""The engine as the server sees it: a process that is started, spoken to, watched, and started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import time
from collections.abc import Sequence
from typing import Any

import zmq.asyncio

from vtcore import errors
from vtcore.errors import ArgumentError, EngineDeadError, VtcoreError
from vtcore.sampling_params import SamplingParams
from vtcore.server.process import EngineProcess, NotStartedError
from vtcore.server.pulse import place, silence
from vtcore.server.remote_stream import RemoteStream
from vtcore.server.wire import (
    Abort,
    Accepted,
    Added,
    Call,
    Close,
    Ended,
    Failed,
    FromEngine,
    Ready,
    Refused,
    Submit,
    ToEngine,
    Told,
    pack,
    unpack_from_engine,
)

LOGGER = logging.getLogger("uvicorn.error")  # where the server's other lines come from
DEAD = "the engine's process ended; it is being started again"
PATIENCE, CALMED = 5, 30.0  # deaths in a row before it is given up, and seconds of life after which a death is the first again


class RemoteEngine:
    """Has the `submit` of AsyncEngine. `start` it in the event loop that is to use it."""

    def __init__(self, process: EngineProcess) -> None:
        self.process = process
        self.heard = 0.0  # when it was last known to get on
        self.info: dict[str, Any] = {}
        self.streams: dict[str, RemoteStream] = {}
        self.restarts = 0
        self._ready, self._closing = asyncio.Event(), False
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._task: asyncio.Task[None] | None = None
        self._socket: zmq.asyncio.Socket | None = None

    async def start(self) -> None:
        """Until the first process takes requests. Raises NotStartedError where it ends before that: it has said why on stderr."""
        self._task = asyncio.create_task(self._live())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait([ready, self._task], return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._task

    async def lost(self) -> None:
        """Raises VtcoreError once the engine has died so often that it isn't started again. Until then it waits."""
        assert self._task is not None, "start() comes first"
        await asyncio.shield(self._task)

    @property
    def silence(self) -> float:
        """Seconds for which the process wasn't heard to get on."""
        return time.monotonic() - self.heard

    @property
    def healthy(self) -> bool:
        """Whether there is a process that takes requests."""
        return self._ready.is_set()

    async def submit(self, prompt: Sequence[int], sampling_params: SamplingParams, **options: Any) -> RemoteStream:
        """Queue a request. Raises ArgumentError for one that can't be run, EngineDeadError while there is no engine."""
        request_id = str(options.pop("request_id"))
        if request_id in self.streams:
            raise ArgumentError(f"request_id {request_id!r} is running; give each running request an id of its own")
        stream = self.streams[request_id] = RemoteStream(request_id, list(prompt), self._abort)
        try:
            await self._say(Submit(request_id, list(prompt), _fields(sampling_params), options))
            await stream.accepted
        except OverflowError:
            stream.abort()
            raise ArgumentError("a number of the request takes more than 64 bits; token ids and limits must be within them") from None
        except BaseException:
            stream.abort()
            raise
        return stream

    async def call(self, name: str, seconds: float) -> Any:
        """Ask the engine something. Raises EngineDeadError, also where it doesn't answer in time."""
        number = next(self._numbers)
        answer = self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            await self._say(Call(number, name))
            return await asyncio.wait_for(answer, seconds)
        except TimeoutError:
            raise EngineDeadError(f"the engine has not answered for {seconds:g} seconds") from None
        finally:
            del self._calls[number]

    def end_streams(self, reason: str) -> None:
        """Tell all open requests that there is no more to come. They can be made again: it isn't their fault."""
        for stream in self.streams.values():
            stream.refuse(EngineDeadError(reason))
            stream.put(EngineDeadError(reason))
        self.streams.clear()

    async def close(self) -> None:
        """End all requests, and the process."""
        self._closing = True
        if self._socket is not None and self.healthy:
            with contextlib.suppress(VtcoreError):
                await self._say(Close())
        await asyncio.to_thread(self.process.stop)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _abort(self, stream: RemoteStream) -> None:
        if self.streams.get(stream.request_id) is stream:
            del self.streams[stream.request_id]
            if self.healthy and self._socket is not None:
                self._socket.send(pack(Abort(stream.request_id)))

    async def _say(self, message: ToEngine) -> None:
        if (socket := self._socket) is None or not self.healthy:
            raise EngineDeadError(DEAD)
        try:
            await socket.send(pack(message))
        except asyncio.CancelledError:  # also what a send ends by that waits for a process whose death is found out meanwhile
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            raise EngineDeadError(DEAD) from None

    async def _live(self) -> None:
        """One process after the other."""
        deaths = 0
        while not self._closing:
            born = time.monotonic()
            status = await self._one_life()
            if self._closing:
                return
            deaths = 1 if self.healthy and time.monotonic() - born > CALMED else deaths + 1
            ever = self.healthy or self.restarts
            self._died()
            if not ever:
                raise NotStartedError(status)
            if deaths > PATIENCE:
                raise VtcoreError(f"the engine died {deaths} times in a row")
            self.restarts += 1
            self.process.start()

    async def _one_life(self) -> int:
        """Hear one process until it ends: its status."""
        with self._bound(self.process.endpoint) as socket, self._bound(place(self.process.endpoint)) as pulse:
            self._socket = socket
            tasks = [asyncio.create_task(self._hear(socket)), asyncio.create_task(self._watch(pulse))]
            try:
                return await self.process.ended()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._socket = None

    def _bound(self, endpoint: str) -> zmq.asyncio.Socket:
        socket = self.process.context.socket(zmq.PAIR)
        socket.linger = 0
        socket.bind(endpoint)
        return socket

    async def _watch(self, pulse: zmq.asyncio.Socket) -> None:
        """Kill the process where it hangs: what follows is as after any death. Loading takes as long as it takes."""
        await self._ready.wait()
        await silence(pulse, self.process.hang_seconds, self._beat)
        LOGGER.error("the engine has got nothing done for %g seconds: it is killed, and started again", self.process.hang_seconds)
        self.process.kill()

    def _beat(self) -> None:
        self.heard = time.monotonic()

    async def _hear(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            self._heard(unpack_from_engine(await socket.recv()))

    def _heard(self, message: FromEngine) -> None:
        if isinstance(message, Added):
            for delta in message.deltas:
                if (stream := self.streams.get(delta.request_id)) is not None:
                    stream.put(delta)
        elif isinstance(message, Ready):
            self.info = message.info
            self._ready.set()
        elif isinstance(message, Told):
            if (answer := self._calls.get(message.call_id)) is not None and not answer.done():
                answer.set_exception(VtcoreError(message.fault)) if message.fault else answer.set_result(message.value)
        else:
            self._heard_of(message)

    def _heard_of(self, message: Accepted | Refused | Ended | Failed) -> None:
        """Of one request."""
        if (stream := self.streams.get(message.request_id)) is None:
            return
        if isinstance(message, Accepted):
            stream.accept()
            return
        del self.streams[message.request_id]
        if isinstance(message, Refused):
            stream.refuse(getattr(errors, message.kind, VtcoreError)(message.message))
        elif isinstance(message, Failed):
            stream.put(VtcoreError(message.message))
        else:
            stream.end(message)

    def _died(self) -> None:
        self._ready.clear()
        self.end_streams(DEAD)
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(EngineDeadError(DEAD))


def _fields(params: SamplingParams) -> dict[str, Any]:
    return {f.name: getattr(params, f.name) for f in dataclasses.fields(params)}
