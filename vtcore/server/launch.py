"""From arguments to a listening server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtcore.errors import VtcoreError

if TYPE_CHECKING:
    from vtcore.formats.checkpoint import Checkpoint
    from vtcore.server.config import ServerConfig
    from vtcore.server.process import EngineProcess
    from vtcore.server.tracing import Tracing
    from vtcore.text.tokenizer import Tokenizer

DRAIN_SECONDS = 30


@dataclass(frozen=True)
class Listen:
    """Where the server listens: at a host and port, or at a unix socket."""

    host: str = "127.0.0.1"
    port: int = 8000
    uds: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_certfile: Path | None = None
    log_level: str = "info"
    log_format: str = "text"

    def uvicorn(self) -> dict[str, Any]:
        """As options of uvicorn.Config."""
        texts = {n: None if (path := getattr(self, n)) is None else str(path) for n in ("uds", "ssl_keyfile", "ssl_certfile")}
        drain = {"timeout_graceful_shutdown": DRAIN_SECONDS, "server_header": False, "log_level": self.log_level}
        return {"host": self.host, "port": self.port, **texts, **drain, **self._json()}

    def _json(self) -> dict[str, Any]:
        if self.log_format != "json":
            return {}
        from vtcore.server.logs import config

        return {"log_config": config(self.log_level), "access_log": False}


def serve(process: EngineProcess, model: Path, config: Mapping[str, Any], listen: Listen) -> None:
    """Until SIGTERM or Ctrl-C; what runs then is finished, within DRAIN_SECONDS. The engine loads while this imports.

    Raises VtcoreError where the engine's process ends before it is ready."""
    from vtcore.assembly import find_tokenizer
    from vtcore.errors import TokenizerError
    from vtcore.formats.checkpoint import open_checkpoint
    from vtcore.server.config import ServerConfig

    checkpoint = open_checkpoint(model)
    if (tokenizer := find_tokenizer(checkpoint)) is None:
        raise TokenizerError(f"{model} has no tokenizer; a server answers texts, so it needs one")
    asyncio.run(_serve(process, checkpoint, tokenizer, ServerConfig(**config), listen))


async def _serve(process: EngineProcess, checkpoint: Checkpoint, tokenizer: Tokenizer, config: ServerConfig, listen: Listen) -> None:
    import uvicorn

    from vtcore.server.app import application
    from vtcore.server.remote import RemoteEngine

    engine, tracing = RemoteEngine(process), _tracing(config)
    app = application(engine, checkpoint, tokenizer, config, tracing)
    try:
        await engine.start()
        await uvicorn.Server(uvicorn.Config(app, **listen.uvicorn())).serve()
    finally:
        await engine.close()
        if tracing is not None:
            await asyncio.to_thread(tracing.close)


def _tracing(config: ServerConfig) -> Tracing | None:
    if config.traces_endpoint is None:
        return None
    try:
        from vtcore.server.tracing import to

        return to(config.traces_endpoint, config.names[0])
    except ImportError:
        raise VtcoreError("--otlp-traces-endpoint needs more packages: pip install 'vtcore[otel]'") from None
