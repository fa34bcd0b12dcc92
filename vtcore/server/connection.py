"""A connection whose headers are bounded, in bytes and in time: uvicorn's parser takes them however long they are, and waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES, HEADER_SECONDS = 64 << 10, 60.0
TOO_LONG = f"The request's headers are over {HEADER_BYTES} bytes."


class Connection(HttpToolsProtocol):
    """From the first byte of a request on its headers have so much room, and so long."""

    waiting: asyncio.TimerHandle | None = None  # for headers to end
    unfinished = 0  # bytes of headers that haven't ended

    def connection_made(self, transport: Any) -> None:
        """Somebody has come."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        """Its body follows."""
        self._stop_waiting()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Some of it has come."""
        super().data_received(data)
        self.unfinished = 0 if self.waiting is None else self.unfinished + len(data)
        if self.unfinished > HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response(TOO_LONG)

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody has gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self.waiting is None:
            self.waiting = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None
