"""Property tests draw the same examples on every machine, however slow it is. Models of the catalogue are fetched once."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import Browser, chromium
from tests.scripted import script
from tests.talking import SAYS, Chatty
from vtcore import LLM
from vtcore import llm as module
from vtcore.catalogue import resolve

for name in ("FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS", "PIP_CONSTRAINT"):
    os.environ.pop(name, None)  # meant for this run, and not for the programs that tests start
for name in ("no_proxy", "NO_PROXY"):
    os.environ[name] = ",".join(filter(None, (os.environ.get(name), "localhost", "127.0.0.1", "server", "testserver")))

settings.register_profile("vtcore", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vtcore")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, GGUF Q4_1."""
    return resolve("smollm2-135m")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """Gemma 3 270M, GGUF Q4_K_M."""
    return resolve("gemma3-270m")


@pytest.fixture
def talking(tmp_path, monkeypatch):
    """Makes LLMs that say what they are told to (after a prompt of two tokens: hello), with a chat template."""
    monkeypatch.setattr(module, "find_tokenizer", lambda checkpoint: Chatty())
    made = []

    def build(says=SAYS, **options):
        made.append(LLM(script(tmp_path / "script", says), **{"providers": "reference"} | options))
        return made[-1]

    yield build
    for llm in made:
        llm.close()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A directory that pip takes for its index, and an empty cache."""
    directory = tmp_path / "index"
    directory.mkdir()
    monkeypatch.setenv("VTCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    return directory


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium; an error says how to install one."""
    chromium()
    with Browser() as opened:
        yield opened
