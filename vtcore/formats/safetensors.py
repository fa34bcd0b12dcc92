"""Safetensors: one file, or shards that an index names. Headers are checked whole before any tensor is handed out; the data stay mapped.

Format: huggingface/safetensors, README. The header is read here, since the package's NumPy side copies, and has no float8."""

from __future__ import annotations

import warnings
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from vtcore.errors import SafetensorsError
from vtcore.formats.json_file import LARGEST, parse_json, read_object
from vtcore.formats.metadata import short
from vtcore.formats.raw import RawTensor, impossible_shape, map_file

Array = np.ndarray[Any, Any]
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
MOST_DIMS = 32
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"), "U32": np.dtype("<u4"), "U16": np.dtype("<u2"), "U8": np.dtype("u1"), "BOOL": np.dtype("?"),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn), "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "F8_E8M0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz), "F8_E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
}  # fmt: skip


class Entry(NamedTuple):
    """One tensor of a header; begin and end count from the start of the data."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    begin: int
    end: int


def read_file(path: Path) -> dict[str, RawTensor]:
    """All tensors of one file by name. Raises SafetensorsError naming the file, and the tensor, at fault."""
    data = map_file(path, SafetensorsError)
    header, start = _header(data, path)
    entries = [_entry(path, name, value) for name, value in header.items() if name != "__metadata__"]
    _check_cover(path, entries, len(data) - start)
    source = str(path)
    return {e.name: RawTensor(e.name, e.shape, e.dtype, source, data[start + e.begin : start + e.end]) for e in entries}


def _header(data: Array, path: Path) -> tuple[dict[str, Any], int]:
    """The header's object, and where the data start."""
    if len(data) < 8:
        raise SafetensorsError(f"{path} has {len(data)} bytes; a safetensors file begins with 8 that count its header's")
    size = int.from_bytes(data[:8].tobytes(), "little")
    if size > min(len(data) - 8, LARGEST):
        raise SafetensorsError(f"{path}: its header is said to have {size} bytes; the file has {len(data)}, and {LARGEST} are allowed")
    header = parse_json(data[8 : 8 + size].tobytes(), f"{path}: the header", SafetensorsError)
    if not isinstance(header, dict):
        raise SafetensorsError(f"{path}: the header is no JSON object")
    about = header.get("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(v, str) for v in about.values()):
        raise SafetensorsError(f"{path}: '__metadata__' may only hold strings by key")
    return header, 8 + size


def _entry(path: Path, name: str, value: Any) -> Entry:
    """A header's line, checked by itself."""
    if problem := _malformed(value):
        raise SafetensorsError(f"{path}: tensor {short(name)}: {problem}")
    return Entry(name, tuple(value["shape"]), DTYPES[value["dtype"]], *value["data_offsets"])


def _malformed(value: Any) -> str | None:
    """What is wrong with a header's line, if anything."""
    if not isinstance(value, dict) or not value.keys() >= {"dtype", "shape", "data_offsets"}:
        return f"it is described by {short(value)}; an object of dtype, shape and data_offsets is needed"
    shape, offsets, dtype = value["shape"], value["data_offsets"], value["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        return f"its dtype is {short(dtype)}; known are {', '.join(DTYPES)}"
    if not _whole(shape) or len(shape) > MOST_DIMS:
        return f"its shape is {short(shape)}; a list of at most {MOST_DIMS} whole numbers is needed"
    if problem := impossible_shape(tuple(shape)):
        return problem
    if not _whole(offsets) or len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1]:
        return f"its data_offsets are {short(offsets)}; [begin, end] with 0 <= begin <= end is needed"
    needed, spanned = prod(shape) * DTYPES[dtype].itemsize, offsets[1] - offsets[0]
    return None if needed == spanned else f"shape {short(shape)} of {dtype} takes {needed} bytes; its data_offsets span {short(spanned)}"


def _whole(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)


def _check_cover(path: Path, entries: list[Entry], nbytes: int) -> None:
    """The tensors cover the data: no gap, no overlap, nothing behind them."""
    ordered = sorted(entries, key=lambda e: (e.begin, e.end))
    first, last = (ordered[0], ordered[-1]) if ordered else (None, None)
    if first and first.begin:
        raise SafetensorsError(f"{path}: tensor {short(first.name)} begins at {first.begin}, and nothing comes before it")
    for one, two in pairwise(ordered):
        if two.begin != one.end:
            how = "overlaps" if two.begin < one.end else "leaves a gap behind"
            where = f"begins at {two.begin} and {how} {short(one.name)}, which ends at {one.end}"
            raise SafetensorsError(f"{path}: tensor {short(two.name)} {where}")
    end = last.end if last else 0
    if end != nbytes:
        which = f"tensor {short(last.name)} ends" if last else "the header ends"
        raise SafetensorsError(f"{path}: {which} at {end} of the data, and the file has {nbytes} bytes of it: cut short or corrupt")


def read_index(path: Path) -> tuple[dict[str, RawTensor], list[Path]]:
    """All tensors of the shards that an index file names, and the shards. Where two shards hold a name, the index decides."""
    weight_map = read_object(path, SafetensorsError).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise SafetensorsError(f"{path}: 'weight_map' is missing or empty; tensor names with their files are needed")
    for name, file in weight_map.items():
        if not isinstance(file, str) or not file.endswith(".safetensors") or Path(file).name != file or "\\" in file or "\0" in file:
            raise SafetensorsError(f"{path}: tensor {short(name)} is mapped to {short(file)}; a .safetensors file beside it is needed")
    files = {file: path.with_name(file) for file in sorted(set(weight_map.values()))}
    missing = [file for file, where in files.items() if not where.is_file()]
    if missing:
        raise SafetensorsError(f"{path} names {len(missing)} files that are missing: {', '.join(missing[:20])}")
    return _merge(path, weight_map, {file: read_file(where) for file, where in files.items()}), list(files.values())


def _merge(path: Path, weight_map: dict[str, str], shards: dict[str, dict[str, RawTensor]]) -> dict[str, RawTensor]:
    absent = [f"{name} ({file})" for name, file in weight_map.items() if name not in shards[file]]
    if absent:
        raise SafetensorsError(f"{path} names {len(absent)} tensors that their files lack: {', '.join(absent[:20])}")
    out = {name: shards[file][name] for name, file in weight_map.items()}
    for file, shard in shards.items():
        for name, tensor in shard.items():
            if out.setdefault(name, tensor) is not tensor and name not in weight_map:
                raise SafetensorsError(f"tensor {short(name)} is in {out[name].source} and {file}; {path.name} doesn't say which counts")
    return out


def read_directory(directory: Path) -> tuple[dict[str, RawTensor], list[Path]] | None:
    """The tensors of a model's directory and the files they are in, or None where it holds no safetensors. Warns of files it ignores.

    The index decides; without one, model.safetensors; without that, the only .safetensors file there is."""
    present = sorted(directory.glob("*.safetensors"))
    if (directory / INDEX).exists():
        tensors, used = read_index(directory / INDEX)
    elif present:
        used = [f for f in present if f.name == SINGLE] or present
        if len(used) > 1:
            names = ", ".join(f.name for f in used[:8])
            raise SafetensorsError(f"{directory} holds {len(used)} .safetensors files ({names}) and no {INDEX} to say which count")
        tensors = read_file(used[0])
    else:
        return None
    stray = [f.name for f in present if f not in used]
    if stray:
        warnings.warn(f"{directory}: ignored, as no part of the model: {', '.join(stray[:8])}", stacklevel=2)
    return tensors, used
