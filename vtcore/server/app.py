"""The application: routes around a remote engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse

from vtcore import __version__
from vtcore.api.errors import ApiError, Refusal, api_error, invalid
from vtcore.api.service import Service
from vtcore.errors import VtcoreError
from vtcore.formats.checkpoint import Checkpoint
from vtcore.server import chat_page, completions, development, status, tokens
from vtcore.server.config import ServerConfig
from vtcore.server.guard import Guard
from vtcore.server.logs import AccessLog
from vtcore.server.metered import MeteredClient
from vtcore.server.metrics import Metrics
from vtcore.server.remote import RemoteEngine
from vtcore.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from vtcore.server.tracing import Tracing

# Of errors by their status. After 500 uvicorn closes the connection, so that a client should know.
HEADERS = {408: {"Connection": "close"}, 500: {"Connection": "close"}, 503: {"Retry-After": "5"}}
EXPOSED = ("X-Request-Id", "Retry-After")  # to browsers' pages
NO_JSON = "the body can't be read: it must be JSON in UTF-8, nested at most some hundred deep, with numbers of at most some thousand digits"
NO_OBJECT = "the body must be a JSON object, sent with Content-Type: application/json"
REFUSALS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Refusal, "description": "What is wrong with the request"},
    503: {"model": Refusal, "description": "The queue is full, or the engine is being started; Retry-After tells when to come again"},
}


def application(
    engine: RemoteEngine, checkpoint: Checkpoint, tokenizer: Tokenizer, config: ServerConfig, tracing: Tracing | None = None
) -> FastAPI:
    """The routes of one model, whose engine has been started."""
    app = FastAPI(title="vtcore", version=__version__, redoc_url=None, responses=REFUSALS)
    state = app.state
    state.config, state.engine, state.created = config, engine, status.now()
    state.metrics = Metrics(config.names[0], config.metrics_prefix)
    state.client = MeteredClient(engine, state.metrics, tracing)
    state.service = Service(state.client, checkpoint, tokenizer, config.names)
    for module in (chat_page, completions, tokens, status, *([development] if config.dev_mode else [])):
        app.include_router(module.router)
    for kind in (ApiError, RequestValidationError, ValidationError, HTTPException, VtcoreError, Exception):
        app.add_exception_handler(kind, _refuse)
    app.add_middleware(Guard, config=config)
    if tracing is not None:
        app.add_middleware(tracing.middleware)
    if config.log_format == "json":
        app.add_middleware(AccessLog)
    if config.origins:
        app.add_middleware(CORSMiddleware, allow_origins=config.origins, allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED)
    return app


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    told = _told(error)
    own = error.headers if isinstance(error, HTTPException) else None  # such as Allow
    return JSONResponse(told.body(), told.status, {**HEADERS.get(told.status, {}), **(own or {})})


def _told(error: Exception) -> ApiError:
    if isinstance(error, RequestValidationError):
        return _misread(error.errors())
    if isinstance(error, HTTPException):  # one of 400 is FastAPI's, for what even its JSON parser raises something else at
        return ApiError(error.status_code, NO_JSON if error.status_code == 400 else str(error.detail))
    return api_error(error)


def _misread(faults: Sequence[Any]) -> ApiError:
    """Of a body as a whole, or of its fields: without the word "body"."""
    kind, place = faults[0]["type"], faults[0]["loc"]
    if kind == "json_invalid":
        return ApiError(400, f"the body is no JSON: {faults[0]['ctx']['error'].removesuffix(' at')} at character {place[-1]}")
    if place == ("body",):
        return ApiError(400, NO_OBJECT)
    return invalid([{**fault, "loc": fault["loc"][1:]} for fault in faults])
