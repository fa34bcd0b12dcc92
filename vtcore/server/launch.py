"""From arguments to a listening server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.collector import loading
from vtcore.errors import VtcoreError
from vtcore.undisturbed import importing

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from vtcore.server.config import ServerConfig
    from vtcore.server.draining import DrainingServer
    from vtcore.server.listening import Listening
    from vtcore.server.process import EngineProcess
    from vtcore.server.remote import RemoteEngine
    from vtcore.server.tracing import Tracing


@dataclass(frozen=True)
class Spoken:
    """How the server speaks, and what it says of itself."""

    ssl_keyfile: Path | None = None
    ssl_certfile: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    request_seconds: float = 60

    def uvicorn(self) -> dict[str, Any]:
        """As options of uvicorn.Config."""
        from vtcore.server.connection import Connection
        from vtcore.server.draining import DRAIN_SECONDS, LAST_WORDS

        texts = {n: None if (path := getattr(self, n)) is None else str(path) for n in ("ssl_keyfile", "ssl_certfile")}
        drain = {"timeout_graceful_shutdown": DRAIN_SECONDS + LAST_WORDS, "server_header": False, "log_level": self.log_level}
        return {**texts, **drain, "lifespan": "off", "http": Connection.within(self.request_seconds), **self._json()}

    def _json(self) -> dict[str, Any]:
        if self.log_format != "json":
            return {}
        from vtcore.server.logs import config

        return {"log_config": config(self.log_level), "access_log": False}


@dataclass(frozen=True)
class Made:
    """A server that doesn't listen yet."""

    app: FastAPI
    engine: RemoteEngine
    tracing: Tracing | None


def serve(process: EngineProcess, model: Path, config: Mapping[str, Any], spoken: Spoken, listening: Listening) -> None:
    """Until SIGTERM or Ctrl-C; what runs then is finished, for up to 30 seconds. The engine loads while this imports.

    Raises VtcoreError where the engine's process ends before it is ready, and where it has died too often to be started again: whoever
    started the server then starts it anew."""
    with importing(), loading():
        made = _make(process, model, config)
        server = _server(made, spoken, listening)
    asyncio.run(_serve(made, server, listening))


def _make(process: EngineProcess, model: Path, config: Mapping[str, Any]) -> Made:
    from vtcore.errors import TokenizerError
    from vtcore.formats.checkpoint import open_checkpoint
    from vtcore.server.app import application
    from vtcore.server.config import ServerConfig
    from vtcore.server.remote import RemoteEngine
    from vtcore.text.load import find_tokenizer

    checkpoint, told = open_checkpoint(model), ServerConfig(**config)
    if (tokenizer := find_tokenizer(checkpoint)) is None:
        raise TokenizerError(f"{model} has no tokenizer; a server answers texts, so it needs one")
    engine, tracing = RemoteEngine(process), _tracing(told)
    return Made(application(engine, checkpoint, tokenizer, told, tracing), engine, tracing)


def _server(made: Made, spoken: Spoken, listening: Listening) -> DrainingServer:
    import uvicorn

    from vtcore.server.draining import DrainingServer

    return DrainingServer(uvicorn.Config(made.app, **spoken.uvicorn()), made.engine, listening.place)


async def _serve(made: Made, server: DrainingServer, listening: Listening) -> None:
    try:
        await made.engine.start()
        lost = asyncio.create_task(_stop_without(made.engine, server))
        await _listen(server, listening)
        if lost.done():
            await lost
        lost.cancel()
    finally:
        try:
            await made.engine.close()
        finally:  # Ctrl-C ends the wait for the engine, and only that
            if made.tracing is not None:
                await asyncio.to_thread(made.tracing.close)


async def _listen(server: uvicorn.Server, listening: Listening) -> None:
    """Until it is to end. Raises VtcoreError where another took the address at the same time, and began before it."""
    try:
        await server.serve(listening.sockets)
    except OSError as wrong:
        raise VtcoreError(f"the server can't listen at {listening.place}: {wrong}") from None


async def _stop_without(engine: RemoteEngine, server: uvicorn.Server) -> None:
    """End the server when its engine has been given up."""
    try:
        await engine.lost()
    finally:
        server.should_exit = True


def _tracing(config: ServerConfig) -> Tracing | None:
    if config.traces_endpoint is None:
        return None
    try:
        from vtcore.server.tracing import to

        return to(config.traces_endpoint, config.names[0])
    except ImportError:
        raise VtcoreError("--otlp-traces-endpoint needs more packages: pip install 'vtcore[otel]'") from None
