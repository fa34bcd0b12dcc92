"""Logs as JSON: an object a line, for programs that gather them."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vtcore.api.answer import Answer

LOGGER = logging.getLogger("vtcore.access")
GONE = 499  # where the client left before anything was answered


class JsonFormatter(logging.Formatter):
    """{time, level, logger, message}, and what a record bears under `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"time": when, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        told |= getattr(record, "fields", {})
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def config(level: str) -> dict[str, Any]:
    """For logging.config.dictConfig: everything as JSON, to stderr."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
    }


class AccessLog:
    """An ASGI middleware: a line a request, when its answer has been sent whole."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and tell of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state, start, status = scope.setdefault("state", {}), time.monotonic(), GONE

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, seen)
        finally:
            told = {"request_id": state.get("request_id"), "method": scope["method"], "route": scope["path"], "status": status}
            seconds = round(time.monotonic() - start, 6)
            LOGGER.info("request", extra={"fields": {**told, **_tokens(state.get("answer")), "seconds": seconds}})


def _tokens(answer: Answer | None) -> dict[str, int]:
    if answer is None:
        return {}
    usage = answer.usage()
    return {"prompt_tokens": usage["prompt_tokens"], "completion_tokens": usage["completion_tokens"]}
