"""Streams of an OpenAI-compatible server, read with as little work as can be: bytes until the end of each, taken apart afterwards."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

READ = 1 << 16


@dataclass(frozen=True)
class At:
    """Where a server listens: at a host and port, or at a unix socket."""

    host: str = ""
    port: int = 0
    path: str | None = None

    @classmethod
    def url(cls, text: str) -> At:
        """As http://127.0.0.1:8080."""
        parts = urlsplit(text)
        return cls(parts.hostname or "", parts.port or 80)

    async def ask(self, head: str, body: bytes = b"") -> bytes:
        """One request on a connection of its own: all that comes."""
        reader, writer = await (asyncio.open_unix_connection(self.path) if self.path else asyncio.open_connection(self.host, self.port))
        try:
            said = f"{head} HTTP/1.1\r\nHost: server\r\nConnection: close\r\nContent-Type: application/json\r\n"
            writer.write(said.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            parts = list[bytes]()
            while part := await reader.read(READ):
                parts.append(part)
            return b"".join(parts)
        finally:
            writer.close()

    async def ask_all(self, bodies: Sequence[Mapping[str, Any]]) -> list[bytes]:
        """Completions, all at once."""
        return await asyncio.gather(*(self.ask("POST /v1/completions", json.dumps(body).encode()) for body in bodies))


async def health(server: At) -> bool:
    """Whether it is ready."""
    try:
        return b" 200 " in (await server.ask("GET /health")).partition(b"\r\n")[0]
    except OSError:
        return False


def answers(raw: bytes) -> int:
    """The new tokens of one stream, as its usage says. AssertionError for a stream that isn't whole."""
    lines = [line.removeprefix(b"data: ") for line in raw.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: ")]
    assert lines[-1:] == [b"[DONE]"], raw[:500]
    usage = [told["usage"] for told in map(json.loads, lines[:-1]) if told.get("usage")]
    return int(usage[-1]["completion_tokens"])
