"""JSON over HTTP with bounds: a deadline for each request, a limit to each answer, and a reason in words for whatever goes wrong."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from vtcore.errors import ArgumentError, CheckpointError
from vtcore.formats.json_file import parse_json
from vtcore.oracle.followed import NotComparedError

LARGEST = 64 << 20  # bytes of an answer
PIECE = 1 << 16


class UnreachableError(NotComparedError):
    """No answer came: the server isn't there, is too slow, or broke off."""


class RefusedError(NotComparedError):
    """The server answered with an HTTP error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """One server. A request, its answer included, may take `timeout` seconds. Proxies of the environment are not used."""

    def __init__(self, url: str, timeout: float, api_key: str | None = None) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as wrong:
            raise ArgumentError(f"engine {url!r}: {wrong}") from wrong
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ArgumentError(f"engine {url!r} is no address of a server; write it as http://HOST:PORT")
        try:
            self.host, self.port, self.secure = parts.hostname, parts.port, parts.scheme == "https"
        except ValueError as wrong:
            raise ArgumentError(f"engine {url!r}: {wrong}") from wrong
        self.prefix = parts.path.rstrip("/").removesuffix("/v1")
        self.timeout, self.api_key = timeout, api_key

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that a path answers with."""
        return self._ask("POST", path, json.dumps(body).encode())

    def maybe(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The same, and None where the server has no such path, or answers something else there."""
        try:
            return self.get(path) if body is None else self.post(path, body)
        except UnreachableError:
            raise
        except NotComparedError:
            return None

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        place = f"{method} {path}"
        started = time.monotonic()
        connection = self._connection()
        try:
            connection.connect()
            with _deadline(connection.sock, self.timeout - (time.monotonic() - started)):
                connection.request(method, self.prefix + path, body, self._headers())
                response = connection.getresponse()
                status, raw = response.status, _read(response)
        except (OSError, http.client.HTTPException, ValueError) as wrong:
            raise UnreachableError(self._why(place, wrong, time.monotonic() - started)) from wrong
        finally:
            connection.close()
        if status >= 300:
            raise RefusedError(f"{place} answered HTTP {status}: {_shortened(raw)}", status)
        return _parsed(raw, place)

    def _connection(self) -> http.client.HTTPConnection:
        if self.secure:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def _headers(self) -> dict[str, str]:
        key = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        return {"Content-Type": "application/json", "Accept": "application/json", **key}

    def _why(self, place: str, wrong: Exception, seconds: float) -> str:
        if isinstance(wrong, TimeoutError) or seconds >= self.timeout:
            return f"{place} gave no whole answer within {self.timeout:g} s (--timeout)"
        if isinstance(wrong, ConnectionRefusedError):
            return f"nothing listens at {self.host}:{self.port or (443 if self.secure else 80)}"
        return f"{place} failed: {type(wrong).__name__}: {wrong}"


@contextlib.contextmanager
def _deadline(sock: socket.socket, seconds: float) -> Iterator[None]:
    """A socket's own timeout starts anew with every byte: this ends the request whatever trickles in. Raises TimeoutError where it did,
    since an answer of no stated length then looks whole."""
    cut = threading.Event()
    late = threading.Timer(max(0.0, seconds), _cut, [sock, cut])
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
    if cut.is_set():
        raise TimeoutError


def _cut(sock: socket.socket, cut: threading.Event) -> None:
    cut.set()
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _read(response: http.client.HTTPResponse) -> bytes:
    pieces, size = [], 0
    while piece := response.read(PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > LARGEST:
            raise http.client.HTTPException(f"its answer is over {LARGEST >> 20} MiB")
    if response.length:
        raise http.client.HTTPException(f"its answer broke off, {response.length} bytes before its end")
    return b"".join(pieces)


def _parsed(raw: bytes, place: str) -> Any:
    try:
        return parse_json(raw, f"the answer to {place}", CheckpointError)
    except CheckpointError as wrong:
        raise NotComparedError(f"{wrong}: {_shortened(raw)}") from wrong


def _shortened(raw: bytes) -> str:
    text = " ".join(raw[:400].decode("utf-8", "replace").split())
    return repr(text if len(text) <= 160 else text[:159] + "…")
