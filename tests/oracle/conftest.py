"""A tiny model with a tokenizer, what it answers to five prompts, and servers that stand in for those of other engines."""

from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tokenizers.pre_tokenizers import ByteLevel

from tests.checkpoints import random_llama
from tests.cli.conftest import TEMPLATE, write_tokenizer
from tests.oracle.standin import Brain, StandIn
from vtcore.oracle.engines.vtcore import VtcoreEngine
from vtcore.oracle.prompts import Prompt
from vtcore.oracle.record import facts_of, record

PROMPTS = ("hello there", "naïve 漢字", "12345", "The sky is", [{"role": "user", "content": "hi"}])


@pytest.fixture(scope="session")
def model(tmp_path_factory) -> str:
    directory = random_llama(tmp_path_factory.mktemp("oracle"), vocab_size=257, seed=3)
    write_tokenizer(directory, TEMPLATE)
    say_letters(directory)
    return str(directory)


def say_letters(directory: Path) -> None:
    """Make every token but a printable character less likely than the letter a, so that answers are text."""
    letters = sorted(ByteLevel.alphabet())
    path = directory / "model.safetensors"
    tensors = load_file(path)
    head = tensors["lm_head.weight"]
    head[[i for i in range(257) if i == 256 or not letters[i].isascii()]] = 0.5 * head[letters.index("a")]
    save_file(tensors, path)


@pytest.fixture(scope="session")
def engine(model):
    engine = VtcoreEngine(model, providers="reference")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def recording(model, engine):
    prompts = [Prompt(str(i), p) for i, p in enumerate(PROMPTS, start=1)]
    return record(facts_of(model), prompts, engine, max_tokens=6, alternatives=4)


@pytest.fixture(scope="session")
def hidden(model, tmp_path_factory):
    """Two prompts with the layers' outputs."""
    engine = VtcoreEngine(model, hidden=True, providers="reference")
    try:
        yield record(facts_of(model), [Prompt("1", PROMPTS[0]), Prompt("2", PROMPTS[3])], engine, max_tokens=4, alternatives=3), engine
    finally:
        engine.close()


@pytest.fixture(scope="session")
def brain(engine) -> Brain:
    return Brain(engine.llm)


@pytest.fixture
def standin(brain):
    """Starts a server that speaks as one kind does; `wrong` is what is the matter with it."""
    running = []

    def start(kind: str, **wrong) -> StandIn:
        running.append(StandIn(brain, kind, **wrong))
        return running[-1]

    yield start
    for server in running:
        server.close()


@pytest.fixture
def saved(recording, tmp_path) -> Path:
    from vtcore.oracle.recording_file import write_recording

    path = tmp_path / "golden.safetensors"
    write_recording(recording, path)
    return path
