"""Property tests draw the same examples on every machine, however slow it is. Models of the catalogue are fetched once."""

from pathlib import Path

import pytest
from hypothesis import settings

from vtcore.catalogue import resolve

settings.register_profile("vtcore", deadline=None, derandomize=True)
settings.load_profile("vtcore")


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, GGUF Q4_1."""
    return resolve("smollm2-135m")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """Gemma 3 270M, GGUF Q4_K_M."""
    return resolve("gemma3-270m")
