"""Clients that people have: OpenAI's library, curl and LangChain's, in recorded calls on a real model, and where things go wrong."""

import os
import signal

import openai
import pytest
from clients.call import Server, broken, load
from clients.clients import ask

from tests.gate import Gate
from tests.server.conftest import serving

MODEL, KEY = "smollm2-135m", "a-key"
CALLS = load(MODEL)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    options = ("--api-key", KEY, "--max-model-len", "512")
    with serving(MODEL, tmp_path_factory.mktemp("s"), *options, at_port=True, name=MODEL) as server:
        server.client.headers["Authorization"] = f"Bearer {KEY}"
        yield Server(server.address, KEY, MODEL)
        server.check_idle()


@pytest.fixture(scope="module")
def gate(tmp_path_factory):
    return Gate(tmp_path_factory.mktemp("gate"))


@pytest.fixture(scope="module")
def tiny(model, gate, tmp_path_factory):
    with serving(model, tmp_path_factory.mktemp("s"), *gate.options, at_port=True) as server:
        yield server
        server.wait()
        server.check_idle()


def test_there_are_sixty_and_each_has_a_name():
    assert len({call.name for call in CALLS}) == len(CALLS) == 60


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_a_recorded_call(real, call):
    assert list(broken(call, ask(call, real))) == []


def test_a_client_that_waits_no_longer_frees_its_request(tiny):
    with openai.OpenAI(base_url=f"{tiny.address}/v1", api_key="-", timeout=0.5, max_retries=0) as client:
        engine = tiny.engine()
        os.kill(engine, signal.SIGSTOP)
        try:
            with pytest.raises(openai.APITimeoutError):
                client.completions.create(model="tiny", prompt="a", max_tokens=400, extra_body={"ignore_eos": True})
        finally:
            os.kill(engine, signal.SIGCONT)
    tiny.check_idle()


def test_a_client_that_tries_again_meets_the_next_engine(tiny, gate):
    refused = []

    def let_in(answer):
        if answer.status_code == 503:
            refused.append(answer)
            gate.let_in()

    gate.keep_out()  # the next one is ready when the client has been refused, and not before
    watched = openai.DefaultHttpxClient(event_hooks={"response": [let_in]})
    with openai.OpenAI(base_url=f"{tiny.address}/v1", api_key="-", max_retries=50, http_client=watched) as client:
        os.kill(tiny.engine(), signal.SIGKILL)
        tiny.wait(503)
        assert client.completions.create(model="tiny", prompt="a", max_tokens=2).usage.completion_tokens <= 2
    assert refused


def test_a_stream_that_is_left_is_ended(tiny):
    with (
        openai.OpenAI(base_url=f"{tiny.address}/v1", api_key="-") as client,
        client.completions.create(model="tiny", prompt="a", max_tokens=400, stream=True, extra_body={"ignore_eos": True}) as stream,
    ):
        next(iter(stream))
    tiny.check_idle()
