"""The tokenizer of a checkpoint, whatever files it comes in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from vtcore.errors import ConfigError, TokenizerError
from vtcore.formats.metadata import short
from vtcore.text.directory import FILES, directory_tokenizer
from vtcore.text.gguf_vocabulary import gguf_tokenizer
from vtcore.text.tokenizer import Tokenizer

LARGEST_ID = 2**31 - 1


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


def find_tokenizer(checkpoint: Source) -> Tokenizer | None:
    """The checkpoint's tokenizer, or None where it has no file of any kind of tokenizer. Raises TokenizerError for a broken one."""
    if checkpoint.kind == "gguf":
        there = any(key.startswith("tokenizer.") for key in checkpoint.metadata)
    else:
        there = any(next(checkpoint.directory.glob(pattern), None) for pattern in FILES.split(", "))
    return load_tokenizer(checkpoint) if there else None


def end_ids(checkpoint: Source, tokenizer: Tokenizer | None) -> frozenset[int]:
    """The tokens that end an answer; without a tokenizer, what the configs say."""
    if tokenizer is not None:
        return tokenizer.eos_ids
    ends: set[int] = set()
    for file, config in (("generation_config.json", checkpoint.generation_config), ("config.json", checkpoint.config)):
        said = config.get("eos_token_id")
        ids = said if isinstance(said, list) else [] if said is None else [said]
        if not all(type(i) is int and 0 <= i <= LARGEST_ID for i in ids):
            allowed = f"a token id up to {LARGEST_ID}, or a list of them"
            raise ConfigError(f"{checkpoint.directory / file}: eos_token_id is {short(said)}; it must be {allowed}")
        ends |= set(ids)
    return frozenset(ends)
