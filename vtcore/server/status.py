"""The routes that tell of the server: models, health, load, metrics."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from vtcore import __version__
from vtcore.errors import EngineDeadError, VtcoreError
from vtcore.server.metered import MeteredClient
from vtcore.server.metrics import Metrics
from vtcore.server.remote import RemoteEngine

router = APIRouter(tags=["status"])
HEALTH_SECONDS, SCRAPE_SECONDS = 10.0, 5.0
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/health")
@router.get("/ping")
@router.post("/ping")
async def health(request: Request) -> Response:
    """200 where the engine answers, or gets on with a step that is long; 503 where its process has died and the next one is not ready, or
    it hangs."""
    engine: RemoteEngine = request.app.state.engine
    try:
        await engine.call("ping", HEALTH_SECONDS)
    except EngineDeadError:
        return Response(status_code=200 if engine.healthy and engine.silence < HEALTH_SECONDS else 503)
    return Response(status_code=200)


@router.get("/version")
async def version() -> dict[str, str]:
    """Of vtcore."""
    return {"version": __version__}


@router.get("/load")
async def load(request: Request) -> dict[str, int]:
    """Requests that are being answered."""
    client: MeteredClient = request.app.state.client
    return {"server_load": client.open}


@router.get("/stats")
async def stats(request: Request) -> dict[str, Any]:
    """The engine's limits, its memory, its numbers, and what ran where. 503 where it doesn't answer."""
    engine: RemoteEngine = request.app.state.engine
    return {name: await engine.call(name, SCRAPE_SECONDS) for name in ("info", "stats", "report")} | {"restarts": engine.restarts}


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The served model, under each of its names."""
    return {"object": "list", "data": [_card(request, name) for name in request.app.state.config.names]}


@router.get("/v1/models/{name:path}")
async def model(name: str, request: Request) -> Response:
    """One of its names."""
    if name not in request.app.state.config.names:
        told = {"message": f"there is no model {name!r:.200}", "type": "NotFoundError", "param": "model", "code": 404}
        return JSONResponse({"error": told}, 404)
    return JSONResponse(_card(request, name))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Prometheus' text format."""
    engine: RemoteEngine = request.app.state.engine
    counted: Metrics = request.app.state.metrics
    try:
        stats, report = await engine.call("stats", SCRAPE_SECONDS), await engine.call("report", SCRAPE_SECONDS)
    except VtcoreError:
        stats = report = None
    return Response(counted.text(stats, report), media_type=EXPOSITION)


def _card(request: Request, name: str) -> dict[str, Any]:
    engine: RemoteEngine = request.app.state.engine
    return {
        "id": name,
        "object": "model",
        "created": request.app.state.created,
        "owned_by": "vtcore",
        "root": request.app.state.config.names[0],
        "parent": None,
        "max_model_len": engine.info.get("max_model_len"),
    }


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())
