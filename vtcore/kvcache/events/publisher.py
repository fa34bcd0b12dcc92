"""Events over ZeroMQ: a PUB socket with numbered messages, and a ROUTER socket where those that were lost are asked for again.

A message has three frames: the topic, its number as 8 bytes (big-endian), and msgpack of [seconds since 1970, [events]]. Who sends the
ROUTER an empty frame and a number gets every buffered message from that number on, each as an empty frame, its number and its msgpack,
and at last the number -1 with nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from importlib import import_module
from queue import Empty, Full, Queue
from typing import Any

from vtcore.errors import ArgumentError
from vtcore.kvcache.events.config import KVEventsConfig
from vtcore.kvcache.events.log import Event

END = (-1).to_bytes(8, "big", signed=True)
WAIT = 0.05  # seconds between looks at the replay socket
LINGER = 500  # milliseconds for what is not sent yet when it is closed
Message = tuple[bytes, bytes]  # number and payload


class Publisher:
    """Sends from a thread of its own. Nobody who is slow or absent holds up the engine: what doesn't fit is lost, as numbers show."""

    def __init__(self, config: KVEventsConfig) -> None:
        self.config, self.dropped = config, 0
        zmq, self._pack = _library("zmq"), _library("msgspec").msgpack.encode
        self._next = 0
        self._queue: Queue[Message | None] = Queue(config.max_queue_size)
        self._buffer = deque[Message](maxlen=config.buffer_steps if config.replay_endpoint else 0)
        self._context = zmq.Context.instance()
        self._pub = self._socket(zmq.PUB, config.hwm, config.endpoint)
        self._replay = None
        if config.replay_endpoint is not None:
            try:
                self._replay = self._socket(zmq.ROUTER, config.buffer_steps + 2, config.replay_endpoint)
            except BaseException:
                self._pub.close(0)
                raise
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="vtcore-kv-events", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> str:
        """Where subscribers connect to, once a port was chosen."""
        return str(self._pub.last_endpoint.decode())

    @property
    def replay_endpoint(self) -> str | None:
        """Where lost messages are asked for."""
        return None if self._replay is None else str(self._replay.last_endpoint.decode())

    def publish(self, events: list[Event]) -> None:
        """One message, soon."""
        message = self._next.to_bytes(8, "big"), self._pack([time.time(), events])
        self._next += 1
        try:
            self._queue.put_nowait(message)
        except Full:
            self.dropped += 1

    def close(self) -> None:
        """Send what waits, as far as somebody takes it, and end. A second time changes nothing."""
        if not self._closing.is_set():
            self._closing.set()
            self._thread.join()

    def _socket(self, kind: int, hwm: int, endpoint: str) -> Any:
        socket = self._context.socket(kind)
        socket.sndhwm, socket.linger = hwm, LINGER
        open_to_all = any(mark in endpoint for mark in ("*", "::", "ipc://", "inproc://"))
        try:
            (socket.bind if open_to_all or kind != _library("zmq").PUB else socket.connect)(endpoint)
        except _library("zmq").ZMQError as e:
            socket.close(0)
            raise ArgumentError(f"kv_events_config: {endpoint!r} can't be used: {e}") from e
        return socket

    def _serve(self) -> None:
        topic = self.config.topic.encode()
        while not (self._closing.is_set() and self._queue.empty()):
            try:
                message = self._queue.get(timeout=WAIT)
            except Empty:
                message = None
            if message is not None:
                self._buffer.append(message)
                self._pub.send_multipart((topic, *message))
            if self._replay is not None and self._replay.poll(0):
                self._answer(self._replay, self._replay.recv_multipart())
        self._pub.close()
        if self._replay is not None:
            self._replay.close()

    def _answer(self, replay: Any, frames: list[bytes]) -> None:
        """Whatever is no question is passed over."""
        if len(frames) != 3 or frames[1] or len(frames[2]) != 8:
            return
        start = int.from_bytes(frames[2], "big")
        for number, payload in self._buffer:
            if int.from_bytes(number, "big") >= start:
                replay.send_multipart((frames[0], b"", number, payload))
        replay.send_multipart((frames[0], b"", END, b""))


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as missing:
        raise ArgumentError(f"kv_events_config needs the package {name}: pip install 'vtcore[serve]'") from missing
