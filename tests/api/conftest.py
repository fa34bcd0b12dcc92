import asyncio

import pytest

from tests.checkpoints import random_llama
from tests.cli.conftest import TEMPLATE, write_tokenizer
from tests.patience import SECONDS
from vtcore import LLM
from vtcore.api.chat import ChatRequest
from vtcore.api.completion import CompletionRequest
from vtcore.api.responses import ResponsesRequest
from vtcore.api.service import Service
from vtcore.async_engine import AsyncEngine


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A tiny model of random weights with a chat template and a token a byte."""
    directory = random_llama(tmp_path_factory.mktemp("api"))
    write_tokenizer(directory, TEMPLATE)
    return directory


@pytest.fixture(scope="session")
def llm(model):
    with LLM(model, providers="reference") as made:
        yield made


@pytest.fixture
def served(llm):
    """Calls a coroutine function with a Service; afterwards nothing may be left of it."""

    def run(use):
        async def whole():
            engine = AsyncEngine(llm)
            try:
                return await use(Service(engine, llm.checkpoint, llm.tokenizer, ["tiny", "also-tiny"]))
            finally:
                await engine.close()

        result = asyncio.run(asyncio.wait_for(whole(), SECONDS))
        assert llm.engine.idle
        return result

    return run


@pytest.fixture
def ask(served):
    """The whole answer to one body, or its frames where that asks for a stream."""

    def asked(kind, **body):
        async def use(service):
            request = {"chat": ChatRequest, "complete": CompletionRequest, "respond": ResponsesRequest}[kind].model_validate(
                {"temperature": 0} | body
            )
            answer = await getattr(service, kind)(request)
            if not body.get("stream"):
                return await answer.whole()
            return [f async for f in (answer.events() if kind == "respond" else answer.frames())]

        return served(use)

    return asked
