"""What isn't finished when the server ends: clients are told, in the words of their route."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn

from tests.server.conftest import SECONDS
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.server import draining
from vtcore.server.app import application
from vtcore.server.config import ServerConfig
from vtcore.server.draining import ENDING, DrainingServer
from vtcore.server.remote import RemoteEngine
from vtcore.server.remote_stream import RemoteStream
from vtcore.text.load import find_tokenizer


class Hanging(RemoteEngine):
    """It takes requests, and answers none."""

    def __init__(self):
        super().__init__(None)
        self.info = {"max_model_len": 512}

    async def submit(self, prompt, sampling_params, **options):
        name = options["request_id"]
        stream = self.streams[name] = RemoteStream(name, list(prompt), self._abort)
        return stream


@asynccontextmanager
async def serving(model, path):
    """A server with an engine that hangs, and a client of it."""
    checkpoint, engine = open_checkpoint(model), Hanging()
    app = application(engine, checkpoint, find_tokenizer(checkpoint), ServerConfig(names=["tiny"]))
    server = DrainingServer(uvicorn.Config(app, uds=path, log_level="error"), engine, path)
    task = asyncio.create_task(server.serve())
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path), base_url="http://s", timeout=SECONDS) as client:
        while not server.started:
            await asyncio.sleep(0.01)
        yield server, engine, client, task


@pytest.mark.parametrize("stream", [True, False])
def test_after_the_time_limit_clients_are_told(model, tmp_path, monkeypatch, stream):
    monkeypatch.setattr(draining, "DRAIN_SECONDS", 0.2)

    async def use():
        async with serving(model, str(tmp_path / "s")) as (server, engine, client, task):
            asked = asyncio.create_task(client.post("/v1/completions", json={"prompt": "a", "stream": stream}))
            while not engine.streams:
                await asyncio.sleep(0.01)
            server.should_exit = True
            await asyncio.wait_for(task, SECONDS)
            return await asked

    answer = asyncio.run(use())
    assert answer.status_code == (200 if stream else 503)
    frames = answer.text.split("\n\n") if stream else [answer.text, "data: [DONE]"]
    error = json.loads(frames[0].removeprefix("data: "))["error"]
    assert (error["message"], error["code"], frames[1]) == (ENDING, 503, "data: [DONE]")
