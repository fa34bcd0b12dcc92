from pathlib import Path

import pytest

from tests.writers import gguf_bytes


@pytest.fixture
def write(tmp_path):
    """Write a file from its parts, and return its path."""

    def write(*args, **options) -> Path:
        path = tmp_path / "model.gguf"
        path.write_bytes(gguf_bytes(*args, **options))
        return path

    return write
