"""Requests without an end, in bytes or in time."""

import asyncio
import json
from contextlib import suppress

import pytest
import uvicorn

from tests.patience import SECONDS
from tests.server.stand_ins import Engine
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.server.app import application
from vtcore.server.config import ServerConfig
from vtcore.server.connection import HEADER_BYTES, Connection
from vtcore.server.incoming import BYTES_PER_SECOND, Incoming
from vtcore.text.load import find_tokenizer

START = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SOON = Connection.within(0.2)


class Soon(Connection.within(SECONDS)):
    """What comes has all the time that it needs, and what doesn't come 0.2 seconds since then."""

    def data_received(self, data):
        self.seconds = 0.2
        if self.waiting is not None:
            self._stop_waiting()
            self._wait(heading=True)
        super().data_received(data)


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


def exchange(path, *pieces, protocol=Connection, app=app, leaving=None):
    """What a server sends back until it closes the connection, or what came until then of a client that leaves when it is to."""

    async def use():
        options = {"lifespan": "off", "log_level": "error", "timeout_keep_alive": SECONDS}
        server = uvicorn.Server(uvicorn.Config(app, uds=str(path), http=protocol, **options))
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_unix_connection(str(path))
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01 if len(pieces) < 9 else 0)  # each comes by itself
        told = b"" if leaving else await asyncio.wait_for(reader.read(), SECONDS)
        if leaving:
            await leaving()
        writer.close()
        server.should_exit = True
        await asyncio.wait_for(task, SECONDS)
        return told

    return asyncio.run(use())


def error(told):
    """The status and the error of the last answer."""
    head, _, body = told.rpartition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    status, told = int(head.rpartition(b"HTTP/1.1 ")[2].split()[0]), json.loads(body)["error"]
    assert told["code"] == status
    return status, told["message"]


def test_what_fits_is_answered_one_after_the_other(tmp_path):
    fits = START + b"X: " + b"a" * (HEADER_BYTES // 2) + b"\r\n"
    told = exchange(tmp_path / "s", fits + b"\r\n", fits + b"\r\n", fits + b"Connection: close\r\n\r\n")
    assert told.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize("what", [b"h2c", b"TLS/1.3"])
def test_who_would_rather_speak_another_protocol_is_answered_in_this_one(tmp_path, what):
    """As Java's client is, which asks for HTTP/2 in the same breath. The body is a part of the request all the same."""

    async def echo(scope, receive, send):
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    head = b"Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: " + what + b"\r\nHTTP2-Settings: AAMA\r\nContent-Length: 15\r\n\r\n"
    body = b"\r\nUpgrade: h2c\r\n"[:15]
    assert exchange(tmp_path / "s", POST + head + body, app=echo).endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("pieces", [[START + b"X: ", b"a" * (8 * HEADER_BYTES)], [START, *[b"X: a\r\n"] * HEADER_BYTES]])
def test_headers_that_are_too_long_are_refused(tmp_path, pieces):
    with suppress(BrokenPipeError, ConnectionResetError):  # where the rest was on its way when the connection was closed
        assert error(exchange(tmp_path / "s", *pieces)) == (400, "the request's headers are over 65536 bytes")


def test_what_is_no_http_is_refused(tmp_path):
    assert error(exchange(tmp_path / "s", b"\0\r\n\r\n")) == (400, "Invalid HTTP request received.")
    assert error(exchange(tmp_path / "s", POST + b"Content-Length: 1\r\n\r\n{}"))[0] == 400


@pytest.mark.parametrize("pieces", [[START], [START + b"\r\n", START]])
def test_headers_that_do_not_end_are_not_waited_for(tmp_path, pieces):
    told = exchange(tmp_path / "s", *pieces, protocol=Soon)
    assert told.count(b"HTTP/1.1 200 OK") == len(pieces) - 1
    assert error(told) == (408, "the request's headers have not come in 0.2 seconds")


def test_who_says_nothing_is_told_nothing(tmp_path):
    assert exchange(tmp_path / "s", protocol=SOON) == b""


def test_a_body_that_nobody_reads_is_not_waited_for(tmp_path):
    told = exchange(tmp_path / "s", POST + b"Content-Length: 9\r\n\r\n12345678", protocol=Soon)
    assert told.count(b"HTTP/1.1 200 OK") == told.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("how", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"])
def test_a_body_that_does_not_come_is_not_waited_for(model, tmp_path, how):
    checkpoint = open_checkpoint(model)
    app = application(Engine(), checkpoint, find_tokenizer(checkpoint), ServerConfig(["tiny"], request_seconds=0.2))
    status, message = error(exchange(tmp_path / "s", POST + how, app=app))
    assert (status, message) == (408, "the body has not come whole in 0.2 seconds; 1 bytes came")


def test_a_large_body_has_the_time_that_its_size_takes():
    pieces = [b"a" * BYTES_PER_SECOND * SECONDS, b"b"]

    async def slowly():
        if len(pieces) == 1:
            await asyncio.sleep(0.02)
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def use():
        incoming = Incoming(slowly, 1 << 30, 0.01)
        return [(await incoming())["body"][:1] for _ in range(2)]

    assert asyncio.run(use()) == [b"a", b"b"]


def test_a_request_behind_a_long_one_is_waited_for(tmp_path):
    """Its headers are not read meanwhile, so that they aren't late."""

    async def slow(scope, receive, send):
        await asyncio.sleep(0.5)
        await app(scope, receive, send)

    last = START + b"Connection: close\r\n\r\n"
    told = exchange(tmp_path / "s", START + b"\r\n" + START + b"\r\n" + last[:30], last[30:], app=slow, protocol=Soon)
    assert told.count(b"HTTP/1.1 200 OK") == 3


def test_the_request_that_runs_hears_that_its_client_has_left(tmp_path):
    """Also where the client had sent another one behind it."""
    running, heard = asyncio.Event(), asyncio.Event()

    async def waiting(scope, receive, send):
        running.set()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        heard.set()

    exchange(tmp_path / "s", (START + b"\r\n") * 2, app=waiting, leaving=running.wait)
    assert heard.is_set()
