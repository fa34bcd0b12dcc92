"""Headers without an end, in bytes or in time."""

import asyncio
from contextlib import suppress

import pytest
import uvicorn

from tests.server.conftest import SECONDS
from vtcore.server import connection
from vtcore.server.connection import HEADER_BYTES, Connection

START = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def exchange(path, *pieces):
    """What a server sends back until it closes the connection."""

    async def use():
        server = uvicorn.Server(uvicorn.Config(app, uds=str(path), http=Connection, lifespan="off", log_level="error"))
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_unix_connection(str(path))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        told = await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        server.should_exit = True
        await task
        return told

    return asyncio.run(use())


def test_what_fits_is_answered_one_after_the_other(tmp_path):
    fits = START + b"X: " + b"a" * (HEADER_BYTES // 2) + b"\r\n"
    told = exchange(tmp_path / "s", fits + b"\r\n", fits + b"\r\n", fits + b"Connection: close\r\n\r\n")
    assert told.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize("pieces", [[START + b"X: ", b"a" * (8 * HEADER_BYTES)], [START, *[b"X: a\r\n"] * HEADER_BYTES]])
def test_headers_that_are_too_long_are_refused(tmp_path, pieces):
    with suppress(BrokenPipeError, ConnectionResetError):  # where the rest was on its way when the connection was closed
        assert exchange(tmp_path / "s", *pieces).endswith(b"The request's headers are over 65536 bytes.")


@pytest.mark.parametrize("pieces", [[], [START], [START + b"\r\n", START]])
def test_headers_that_do_not_come_are_not_waited_for(tmp_path, monkeypatch, pieces):
    monkeypatch.setattr(connection, "HEADER_SECONDS", 0.2)
    assert exchange(tmp_path / "s", *pieces).count(b"HTTP/1.1 200 OK") == (len(pieces) == 2)
