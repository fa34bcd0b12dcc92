"""What a broken GGUF file must end in."""

from pathlib import Path

import pytest

from vtcore.errors import GGUFError
from vtcore.formats.gguf import read_gguf


def refused(path: Path, *words: str) -> None:
    with pytest.raises(GGUFError) as caught:
        read_gguf(path)
    for word in (path.name, *words):
        assert word in str(caught.value)
