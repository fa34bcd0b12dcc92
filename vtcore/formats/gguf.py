"""GGUF files: header, metadata, tensors, and models split into several files. Everything is checked before any tensor is handed out.

Format: ggml's docs/gguf.md, versions 2 and 3, little-endian. Dimensions are stored fastest first; shapes here are outermost first."""

from __future__ import annotations

import re
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from vtcore.errors import GGUFError
from vtcore.formats.gguf_values import LONGEST_NAME, Cursor, read_values
from vtcore.formats.metadata import Metadata, short
from vtcore.formats.raw import RawTensor, impossible_shape, map_file
from vtcore.quant import FORMATS, BlockFormat

Array = np.ndarray[Any, Any]
MOST_DIMS, MOST_TENSORS, MOST_KEYS = 4, 1 << 18, 1 << 16  # the last two bound the time that a hostile file takes
BLOCKS = {f.ggml_type: f for f in FORMATS.values() if f.ggml_type is not None}
DENSE: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"), 1: np.dtype("<f2"), 24: np.dtype("i1"), 25: np.dtype("<i2"), 26: np.dtype("<i4"), 27: np.dtype("<i8"),
    28: np.dtype("<f8"), 30: np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
RETIRED = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


class GGUF(NamedTuple):
    """What a GGUF model holds; `files` are the parts that it was read from."""

    metadata: Metadata
    tensors: dict[str, RawTensor]
    files: tuple[Path, ...]


class Info(NamedTuple):
    """One line of the tensor list."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | BlockFormat
    offset: int

    @property
    def nbytes(self) -> int:
        if isinstance(self.dtype, BlockFormat):
            return prod(self.shape[:-1]) * self.dtype.row_bytes(self.shape[-1])
        return prod(self.shape) * self.dtype.itemsize


def read_gguf(path: Path) -> GGUF:
    """A model from its file, or from all its parts when `path` is one of them (name-00001-of-00003.gguf).

    Raises GGUFError (ConfigError for a metadata value of the wrong type) that names the file, and the key or tensor, at fault."""
    one = read_file(path)
    count = one.metadata.integer("split.count", 0, maximum=65535)
    return one if count < 2 else _join(path, one, count)


def read_file(path: Path) -> GGUF:
    """One file by itself, whether or not it is a part of a model."""
    data = map_file(path, GGUFError)
    cursor = Cursor(data, str(path))
    _check_magic(cursor)
    n_tensors, n_values = cursor.count(24, MOST_TENSORS), cursor.count(13, MOST_KEYS)
    metadata = Metadata(read_values(cursor, n_values), str(path))
    infos = _read_infos(cursor, n_tensors)
    return GGUF(metadata, _place(cursor, infos, _alignment(metadata)), (path,))


def _check_magic(cursor: Cursor) -> None:
    magic = bytes(cursor.view[:4])
    if magic != b"GGUF":
        cursor.fail(f"this is not a GGUF file: it starts with {magic!r}, not with b'GGUF'")
    cursor.at = 4
    version = cursor.u32()
    if version and not version & 0xFFFF:
        cursor.fail("this is a big-endian file; only little-endian ones are read (gguf-convert-endian of the gguf package converts it)")
    if version == 1:
        cursor.fail("version 1, with 32-bit counts, is not read; 2 and 3 are: convert the model again")
    if version not in (2, 3):
        cursor.fail(f"version {version} is unknown; 2 and 3 are read")


def _alignment(metadata: Metadata) -> int:
    alignment = metadata.integer("general.alignment", 32)
    if alignment == 0 or alignment % 8:
        raise metadata.wrong("general.alignment", "a positive multiple of 8")
    return alignment


def _read_infos(cursor: Cursor, n: int) -> list[Info]:
    infos: dict[str, Info] = {}
    for i in range(n):
        cursor.what = f"tensor {i + 1} of {n}"
        name = cursor.text(LONGEST_NAME)
        cursor.what = f"tensor {short(name)}"
        if name in infos:
            cursor.fail("it comes twice; tensor names are unique")
        infos[name] = _read_info(cursor, name)
    return list(infos.values())


def _read_info(cursor: Cursor, name: str) -> Info:
    n_dims = cursor.u32()
    if n_dims > MOST_DIMS:
        cursor.fail(f"n_dims is {n_dims}; at most {MOST_DIMS} are allowed")
    shape = tuple(cursor.u64() for _ in range(n_dims))[::-1]
    if problem := impossible_shape(shape):
        cursor.fail(problem)
    dtype = _dtype(cursor, cursor.u32(), shape)
    return Info(name, shape, dtype, cursor.u64())


def _dtype(cursor: Cursor, type_id: int, shape: tuple[int, ...]) -> np.dtype[Any] | BlockFormat:
    if type_id in DENSE:
        return DENSE[type_id]
    if type_id in RETIRED:
        cursor.fail(f"ggml type {type_id} ({RETIRED[type_id]}) is retired and can't be read; quantise the model again")
    if type_id not in BLOCKS:
        known = ", ".join(f"{i}" for i in sorted(DENSE | BLOCKS))
        cursor.fail(f"ggml type {type_id} is unknown; known are {known}")
    fmt, row = BLOCKS[type_id], shape[-1] if shape else 1
    if row % fmt.block:
        cursor.fail(f"a row has {row} values, {row} not a multiple of {fmt.block}, the block of {fmt.name}")
    return fmt


def _place(cursor: Cursor, infos: list[Info], alignment: int) -> dict[str, RawTensor]:
    """The tensors' bytes: aligned, inside the file, apart from one another."""
    start, tensors = -(-cursor.at // alignment) * alignment, {}
    for info in infos:
        cursor.what, begin = f"tensor {short(info.name)}", start + info.offset
        if info.offset % alignment:
            cursor.fail(f"its offset {info.offset} is not a multiple of the alignment {alignment}")
        if begin + info.nbytes > len(cursor.data):
            cursor.fail(f"it lies at bytes {begin} to {begin + info.nbytes}, and the file has {len(cursor.data)}: cut short or corrupt")
        data = cursor.data[begin : begin + info.nbytes]
        tensors[info.name] = RawTensor(info.name, info.shape, info.dtype, cursor.source, data)
    _check_apart(cursor, infos)
    return tensors


def _check_apart(cursor: Cursor, infos: list[Info]) -> None:
    for first, second in pairwise(sorted((i for i in infos if i.nbytes), key=lambda i: i.offset)):
        if first.offset + first.nbytes > second.offset:
            cursor.what = f"tensor {short(second.name)}"
            cursor.fail(f"its offset {second.offset} is inside tensor {short(first.name)}, which ends at {first.offset + first.nbytes}")


def _join(path: Path, one: GGUF, count: int) -> GGUF:
    """All parts of a split model. The first one's metadata are the model's."""
    files = _part_names(path, count)
    missing = [f.name for f in files if not f.is_file()]
    if missing:
        raise GGUFError(f"{path} is part of a model in {count} files; missing beside it: {', '.join(missing[:20])}")
    parts = [one if file.name == path.name else read_file(file) for file in files]
    tensors: dict[str, RawTensor] = {}
    for number, part in enumerate(parts):
        _check_part(part, number, count)
        for name, tensor in part.tensors.items():
            if name in tensors:
                raise GGUFError(f"tensor {short(name)} is in {tensors[name].source} and again in {tensor.source}")
            tensors[name] = tensor
    total = parts[0].metadata.integer("split.tensors.count")
    if total != len(tensors):
        raise GGUFError(f"{files[0]}: 'split.tensors.count' is {total}, and the {count} parts hold {len(tensors)} tensors")
    return GGUF(parts[0].metadata, tensors, tuple(files))


def _part_names(path: Path, count: int) -> list[Path]:
    name = PART.fullmatch(path.name)
    if not name or int(name[3]) != count:
        raise GGUFError(f"{path}: it is part of a model in {count} files, so its name must end in -00001-of-{count:05d}.gguf")
    return [path.with_name(f"{name[1]}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1)]


def _check_part(part: GGUF, number: int, count: int) -> None:
    found = part.metadata.integer("split.no"), part.metadata.integer("split.count")
    if found != (number, count):
        raise GGUFError(f"{part.files[0]}: 'split.no' and 'split.count' are {found[0]} and {found[1]}; by its name {number} and {count}")
