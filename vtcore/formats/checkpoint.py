"""A model on disk: its config, its metadata, and its tensors by the names that the files give them. Nothing is read but headers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vtcore.errors import ConfigError, ModelNotFoundError
from vtcore.formats.gguf import read_gguf
from vtcore.formats.json_file import read_object
from vtcore.formats.metadata import Metadata
from vtcore.formats.raw import RawTensor, map_file
from vtcore.formats.safetensors import INDEX, SINGLE, read_directory

__all__ = ["Checkpoint", "RawTensor", "open_checkpoint"]
LOOKED_FOR = f"{INDEX}, {SINGLE} or a single .safetensors file, each with a config.json, or a single .gguf file"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A model's files, opened.

    path: as given. directory: where tokenizer and template files are. files: those that hold the tensors. config, generation_config: what
    the JSON files beside safetensors say, {} for GGUF and where there is none. metadata: GGUF's, else empty."""

    path: Path
    kind: Literal["gguf", "safetensors"]
    directory: Path
    tensors: Mapping[str, RawTensor] = field(repr=False)
    files: tuple[Path, ...]
    config: dict[str, Any] = field(default_factory=dict, repr=False)
    generation_config: dict[str, Any] = field(default_factory=dict, repr=False)
    metadata: Metadata = field(default_factory=lambda: Metadata({}), repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors as stored."""
        return sum(t.nbytes for t in self.tensors.values())


def open_checkpoint(path: Path | str) -> Checkpoint:
    """Open a model: a directory with safetensors and config.json, a directory with one GGUF model, or a GGUF file (of a split one, any).

    Raises ModelNotFoundError where there is nothing to load; CheckpointError, naming file and key or tensor, where a file is malformed."""
    path = Path(path)
    try:
        directory, file = path.is_dir(), path.is_file()
    except OSError as e:
        raise ModelNotFoundError(f"{path} can't be opened: {e}") from e
    if directory:
        return _open_directory(path)
    if not file:
        raise ModelNotFoundError(f"{path} doesn't exist or is no regular file; a model's directory or a .gguf file is needed")
    return _open_file(path)


def _open_file(path: Path) -> Checkpoint:
    if path.suffix != ".gguf" and map_file(path, ModelNotFoundError)[:4].tobytes() != b"GGUF":
        raise ModelNotFoundError(f"{path} is no GGUF file: give one, or a directory that holds {SINGLE} and config.json")
    gguf = read_gguf(path)
    return Checkpoint(path, "gguf", path.parent, gguf.tensors, gguf.files, metadata=gguf.metadata)


def _open_directory(path: Path) -> Checkpoint:
    ggufs, found = sorted(path.glob("*.gguf")), read_directory(path)
    if found:
        return _open_safetensors(path, *found, ggufs)
    if not ggufs:
        raise ModelNotFoundError(f"{path} holds no model: looked for {LOOKED_FOR}{_others(path)}")
    gguf = read_gguf(ggufs[0])
    if set(gguf.files) != set(ggufs):
        names = ", ".join(f.name for f in ggufs[:8])
        raise ModelNotFoundError(f"{path} holds {len(ggufs)} .gguf files ({names}): give the path of the one to run")
    return Checkpoint(path, "gguf", path, gguf.tensors, gguf.files, metadata=gguf.metadata)


def _open_safetensors(path: Path, tensors: dict[str, RawTensor], files: list[Path], ggufs: list[Path]) -> Checkpoint:
    if ggufs:
        warnings.warn(f"{path}: safetensors are read, {ggufs[0].name} is ignored; give its path to run it instead", stacklevel=4)
    config, generation = path / "config.json", path / "generation_config.json"
    if not config.exists():
        raise ConfigError(f"{config} is missing: the tensors of {files[0].name} can't be run without it")
    generation_config = read_object(generation) if generation.exists() else {}
    return Checkpoint(path, "safetensors", path, tensors, tuple(files), read_object(config), generation_config)


def _others(path: Path) -> str:
    """A word on files that hold weights in a form that is not read."""
    others = sorted(f.name for pattern in ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.onnx", "*.msgpack") for f in path.glob(pattern))
    return f"; {', '.join(others[:4])} can't be read: convert the model to safetensors" if others else ""
