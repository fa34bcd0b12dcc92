"""Routes that change the engine or tell of its insides. They are there only under --enable-server-dev-mode."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from vtcore.server.remote import RemoteEngine

router = APIRouter(tags=["development"])
SECONDS = 60.0


@router.post("/reset_prefix_cache")
async def reset_prefix_cache(request: Request) -> Response:
    """200 once the cache keeps nothing of finished requests; 409 while requests run."""
    engine: RemoteEngine = request.app.state.engine
    return Response(status_code=200 if await engine.call("reset_prefix_cache", SECONDS) else 409)


@router.get("/server_info")
async def server_info(request: Request) -> dict[str, Any]:
    """The engine's limits, its memory, its numbers, and what ran where."""
    engine: RemoteEngine = request.app.state.engine
    return {name: await engine.call(name, SECONDS) for name in ("info", "stats", "report")} | {"restarts": engine.restarts}
