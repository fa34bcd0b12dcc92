"""A connection that is bounded, in bytes and in time: uvicorn's takes headers of any length, and waits for ever for what doesn't come."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from vtcore.api.errors import ApiError
from vtcore.server.config import REQUEST_SECONDS

HEADER_BYTES = 64 << 10
UPGRADE = re.compile(rb"(?i)\r\nupgrade:(?![ \t]*websocket)[^\r\n]*(?=\r\n)")
TOO_LONG = f"the request's headers are over {HEADER_BYTES} bytes"


class Connection(HttpToolsProtocol):
    """From the first byte of a request on its headers have so much room, and so long; and so long has a body that comes after its answer.
    (Before that, whoever reads the body looks at the time.)"""

    seconds: float = REQUEST_SECONDS
    waiting: asyncio.TimerHandle | None = None  # for headers to end, or a body
    heading = False  # whether for headers
    unfinished = 0  # bytes of headers that haven't ended
    in_body = False  # whether what comes next is one
    running: RequestResponseCycle | None = None  # the request that is being answered, or was last

    @classmethod
    def within(cls, seconds: float) -> type[Connection]:
        """The same with another limit of time."""
        return type(cls.__name__, (cls,), {"seconds": seconds})

    def connection_made(self, transport: Any) -> None:
        """Somebody has come."""
        super().connection_made(transport)
        self._wait(heading=True)

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._wait(heading=True)

    def on_headers_complete(self) -> None:
        """Its body follows."""
        self._stop_waiting()
        self.in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """It has come whole."""
        self._stop_waiting()
        self.in_body = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """It is answered, but perhaps not whole: what was refused by its headers."""
        unread = self.running is not None and self.running.more_body
        super().on_response_complete()
        if unread and not self.transport.is_closing():
            self._wait(heading=False)

    def data_received(self, data: bytes) -> None:
        """Some of it has come."""
        super().data_received(data if self.in_body else _as_it_is(data))
        self.unfinished = self.unfinished + len(data) if self.heading else 0
        if self.unfinished > HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LONG)

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody has gone. Uvicorn tells only the request that came last, and not the one that is being answered before it."""
        self._stop_waiting()
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP."""
        self._refuse(ApiError(400, msg))

    def _refuse(self, error: ApiError) -> None:
        """In OpenAI's shape, and close; in the midst of an answer it would be taken for a part of that, so only close."""
        if self.running is None or self.running.response_complete or not self.running.response_started:
            body = msgspec.json.encode(error.body())
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[error.status] + head.encode() + body)
        self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    def _wait(self, heading: bool) -> None:
        if self.waiting is None:
            self.waiting, self.heading = self.loop.call_later(self.seconds, self._late), heading

    def _stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting, self.heading = None, False

    def _late(self) -> None:
        heading, self.waiting = self.heading, None
        if self.flow.read_paused:  # it wasn't asked for more: an earlier request is being answered
            self._wait(heading)
        elif heading and self.unfinished:
            self._refuse(ApiError(408, f"the request's headers have not come in {self.seconds:g} seconds"))
        else:
            self.transport.close()


def _as_it_is(data: bytes) -> bytes:
    """Headers without the wish for another protocol, as h2c, which may be passed over: the parser takes the body for that protocol's."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return UPGRADE.sub(b"", head + end[:2]) + end[2:] + rest
