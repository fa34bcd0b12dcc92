"""The tokenizer of a checkpoint, whatever files it comes in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from vtcore.errors import ConfigError, TokenizerError
from vtcore.text.directory import directory_tokenizer
from vtcore.text.gguf_vocabulary import gguf_tokenizer
from vtcore.text.tokenizer import Tokenizer


class Source(Protocol):
    """What is needed of an opened checkpoint: `vtcore.formats.checkpoint.Checkpoint` is one."""

    @property
    def path(self) -> Path: ...
    @property
    def kind(self) -> str: ...
    @property
    def directory(self) -> Path: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    @property
    def generation_config(self) -> Mapping[str, Any]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


def load_tokenizer(checkpoint: Source) -> Tokenizer:
    """The tokenizer of a model: from the metadata of a GGUF file, or from the files in the model's directory.

    Raises TokenizerError that names the file, and the key, value or token at fault. A chat template that doesn't parse is no fault until
    it is used."""
    try:
        if checkpoint.kind == "gguf":
            return gguf_tokenizer(checkpoint.metadata, str(checkpoint.path))
        return directory_tokenizer(checkpoint.directory, checkpoint.config, checkpoint.generation_config)
    except ConfigError as e:
        raise TokenizerError(str(e)) from e
