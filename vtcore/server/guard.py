"""What stands before every route: the key, the size of the body, and a name for the request in the answer's headers."""

from __future__ import annotations

import hmac
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vtcore.api.errors import ApiError
from vtcore.server.chat_page import PATHS
from vtcore.server.config import ServerConfig
from vtcore.server.incoming import Incoming, too_large

OPEN = ("/health", "/ping", "/version", "/metrics", "/load", *PATHS)  # what may be asked without a key


class Guard:
    """An ASGI middleware. Bodies over the limit are refused by their declared length, and cut off where they lied, or are late."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self.app, self.config = app, config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer at once."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request_id = headers.get("x-request-id", "")[:128] or uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        named = _naming(send, request_id)
        if (refused := self._refused(scope, headers)) is not None:
            await JSONResponse(refused.body(), refused.status)(scope, receive, named)
            return
        if scope["method"] == "HEAD":  # what GET answers, of which uvicorn sends the headers
            scope = {**scope, "method": "GET"}
        await self.app(scope, Incoming(receive, self.config.body_limit, self.config.request_seconds), named)

    def _refused(self, scope: Scope, headers: Headers) -> ApiError | None:
        if self.config.api_keys and scope["path"] not in OPEN and scope["method"] != "OPTIONS" and not self._has_key(headers):
            return ApiError(401, "no valid API key was sent; send it as Authorization: Bearer KEY")
        if (coding := headers.get("content-encoding", "identity").lower()) not in ("", "identity"):
            return ApiError(415, f"the body is sent with Content-Encoding {coding!r:.40}, which isn't read; send it as it is")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.config.body_limit:
            return too_large(self.config.body_limit)
        return None

    def _has_key(self, headers: Headers) -> bool:
        kind, _, key = headers.get("authorization", "").partition(" ")
        told = key.strip().encode()
        same = [hmac.compare_digest(told, known.encode()) for known in self.config.api_keys]
        return kind.lower() == "bearer" and any(same)


def _naming(send: Send, request_id: str) -> Send:
    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["X-Request-Id"] = "".join(c for c in request_id if " " <= c <= "~")
        await send(message)

    return named
