"""How the server ends: what runs is finished, and what isn't in time is told so in its own words."""

from __future__ import annotations

import asyncio
import logging
import socket
from types import FrameType

import uvicorn

from vtcore.server.remote import RemoteEngine

LOGGER = logging.getLogger("uvicorn.error")  # where the server's other lines come from
DRAIN_SECONDS = 30
LAST_WORDS = 2  # seconds more, in which the errors of what was not finished are sent
ENDING = "the server is being stopped, and this was not finished in time; ask again"


class DrainingServer(uvicorn.Server):
    """Uvicorn's, which after a time limit only cuts connections."""

    def __init__(self, config: uvicorn.Config, engine: RemoteEngine, place: str) -> None:
        super().__init__(config)
        self.engine, self.place = engine, place

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let clients in, and say where."""
        await super().startup(sockets)
        LOGGER.info("listening at %s, with%s TLS; Ctrl-C ends it", self.place, "" if self.config.is_ssl else "out")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal: begin to end, or by a second Ctrl-C wait for nothing more."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            asyncio.get_running_loop().call_soon_threadsafe(self.engine.end_streams, ENDING)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for what runs, within DRAIN_SECONDS."""
        limit = asyncio.get_running_loop().call_later(DRAIN_SECONDS, self.engine.end_streams, ENDING)
        try:
            await super().shutdown(sockets)
        finally:
            limit.cancel()
