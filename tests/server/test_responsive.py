"""Long texts are read beside the event loop: whoever else streams, and /health, goes on."""

import threading
from concurrent.futures import ThreadPoolExecutor

from starlette.testclient import TestClient

from tests.server.conftest import SECONDS
from tests.server.stand_ins import Engine
from vtcore.api.service import LONG
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.server.app import application
from vtcore.server.config import ServerConfig
from vtcore.text.load import find_tokenizer

HI = [{"role": "user", "content": "hi"}]
ASKED = (
    ("/v1/completions", {"prompt": ["abc", "d"]}),
    ("/v1/completions", {"prompt": [[97], [98]], "echo": True}),
    ("/v1/chat/completions", {"messages": HI}),
    ("/v1/responses", {"input": "abc"}),
    ("/tokenize", {"prompt": "abc", "return_token_strs": True}),
    ("/tokenize", {"messages": HI}),
    ("/detokenize", {"tokens": [97, 98]}),
)


class Watched:
    """A tokenizer that notes in which threads it worked."""

    def __init__(self, tokenizer):
        self.tokenizer, self.threads = tokenizer, []

    def __getattr__(self, name):
        return getattr(self.tokenizer, name)

    def encode(self, *given):
        self.threads.append(threading.get_ident())
        return self.tokenizer.encode(*given)

    def decode(self, *given, **named):
        self.threads.append(threading.get_ident())
        return self.tokenizer.decode(*given, **named)


class Noting(Engine):
    """It is asked by the event loop's thread."""

    threads = ()

    async def submit(self, *given, **named):
        self.threads = (*self.threads, threading.get_ident())
        return await super().submit(*given, **named)


def test_no_text_is_encoded_or_decoded_where_the_routes_run(model):
    checkpoint, engine = open_checkpoint(model), Noting()
    tokenizer = Watched(find_tokenizer(checkpoint))
    with TestClient(application(engine, checkpoint, tokenizer, ServerConfig(names=["tiny"]))) as client:
        for path, body in ASKED:
            before = len(tokenizer.threads)
            assert client.post(path, json=body).status_code == 200, path
            assert len(tokenizer.threads) > before, path
    assert len(set(engine.threads)) == 1
    assert not set(engine.threads) & set(tokenizer.threads)


def test_short_texts_do_not_wait_for_long_ones(model):
    """However many of those there are: one of them is read at a time."""
    free, begun, done = threading.Event(), threading.Semaphore(0), []

    class Slow(Watched):
        def encode(self, text, *given):
            if len(text) >= LONG:
                begun.release()
                assert free.wait(SECONDS)
            return super().encode(text, *given)

    checkpoint = open_checkpoint(model)
    app = application(Noting(), checkpoint, Slow(find_tokenizer(checkpoint)), ServerConfig(names=["tiny"]))
    with TestClient(app) as client, ThreadPoolExecutor(40) as pool:
        long = [pool.submit(client.post, "/tokenize", json={"prompt": "a" * LONG}) for _ in range(40)]
        try:
            assert begun.acquire(timeout=SECONDS)
            done = [client.post(path, json=body).status_code for path, body in ASKED]
            assert not begun.acquire(blocking=False)
        finally:
            free.set()
        assert {asked.result().status_code for asked in long} == {200}
    assert set(done) == {200}
