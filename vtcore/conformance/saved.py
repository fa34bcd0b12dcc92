"""Cases as files: an .npz with the arrays of one call by name, and `call`, the rest of it as JSON. Strides are kept, since a kernel may
fail on them alone."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.conformance.case import Case
from vtcore.errors import ArgumentError
from vtcore.op import REGISTRY
from vtcore.quant import FORMATS
from vtcore.quant.blocks import Blocks
from vtcore.written import writing

Array = np.ndarray[Any, Any]
CALL = "call"
BITS = {  # dtypes that .npz lacks, and the one that keeps their bits
    np.dtype(ml_dtypes.bfloat16): "uint16",
    np.dtype(ml_dtypes.float8_e4m3fn): "uint8",
    np.dtype(ml_dtypes.float8_e5m2): "uint8",
}
NAMED = {str(dtype): dtype for dtype in BITS}
LARGEST = 1 << 28  # bytes of a case, unpacked; and of an array, whose strides in a file could ask for any amount
LONGEST = 1 << 20  # bytes of `call`
PLAIN = {str(np.dtype(t)) for t in (np.float32, np.float64, np.float16, np.bool_, *"bhilqBHILQ")}  # dtypes that are kept as they are
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, MemoryError, OverflowError, NotImplementedError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


def pack(case: Case, about: Mapping[str, Any] | None = None) -> dict[str, Array]:
    """A case as plain arrays by name; `about` says where it comes from."""
    arrays: dict[str, Array] = {}
    tree = {name: _packed(name, value, arrays) for name, value in case.call.items()}
    head = {
        "op": case.op.name,
        "seed": case.seed,
        "number": case.number,
        "source": case.source,
        "arguments": tree,
        "about": dict(about or {}),
    }
    return {CALL: np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays}


def unpack(arrays: Mapping[str, Array]) -> Case:
    """The case that `pack` packed. ArgumentError for anything else, OpError where the op doesn't take the call."""
    try:
        head = json.loads(bytes(arrays[CALL]))
        op = REGISTRY[head["op"]]
        call = {name: _unpacked(node, arrays) for name, node in head["arguments"].items()}
        case = Case(op, op.bind(**call), int(head["seed"]), int(head["number"]), head["source"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise ArgumentError(
            f"not a saved case: {type(error).__name__}: {error}; it must be a file that `vtcore check --save` wrote"
        ) from error
    op.validate(case.call)
    return case


def save(case: Case, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
    """Write a case as an .npz file; `about` says where it comes from."""
    with writing(Path(path)) as file:
        np.savez_compressed(file, allow_pickle=False, **pack(case, about))


def load(path: str | Path) -> Case:
    """Read a case from an .npz file. ArgumentError for a file that holds none."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive)
        with np.load(path, allow_pickle=False) as arrays:
            return unpack({name: arrays[name] for name in arrays.files})
    except FileNotFoundError:
        raise ArgumentError(f"there is no file {str(path)!r}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from error
    except UNREADABLE as error:
        raise ArgumentError(f"{path} can't be read as .npz: {error}") from error


def load_all(path: str | Path) -> Iterator[Case]:
    """The cases of a directory's .npz files in the order of their names, or that of one file; numbered from 0.

    ArgumentError for a directory without any, and for a file that holds none."""
    where = Path(path)
    files = sorted(where.glob("*.npz")) if where.is_dir() else [where]
    if not files:
        raise ArgumentError(f"{where} holds no .npz files; `vtcore run ... --capture rms_norm:5 --capture-dir {where}` makes some")
    for number, file in enumerate(files):
        yield replace(load(file), number=number, path=str(file))


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """Before anything is unpacked: all of it fits, and the header of each array speaks of as many bytes as there are."""
    total = sum(info.file_size for info in archive.infolist())
    if total > LARGEST or any(info.filename == f"{CALL}.npy" and info.file_size > LONGEST for info in archive.infolist()):
        raise ValueError(f"it unpacks to {total} bytes; a case may take {LARGEST}, and its {CALL!r} {LONGEST}")
    for info in archive.infolist():
        with archive.open(info) as file:
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, _, dtype = read[np.lib.format.read_magic(file)](file)
            if dtype.hasobject:
                raise ValueError(f"{info.filename} holds Python objects")
            if prod(shape) * dtype.itemsize != info.file_size - file.tell():
                raise ValueError(f"{info.filename} says {dtype}{list(shape)} and holds {info.file_size - file.tell()} bytes")


def _packed(key: str, value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, (list, tuple)):
        return {"list": [_packed(f"{key}.{i}", v, arrays) for i, v in enumerate(value)]}
    if isinstance(value, Blocks):
        arrays[key] = np.ascontiguousarray(value.data)
        return {"array": key, "format": value.dtype.name}
    if isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value).reshape(value.shape)
        arrays[key] = plain.view(BITS[value.dtype]) if value.dtype in BITS else plain
        strides = tuple(s // value.itemsize for s in value.strides)
        steps = {"steps": strides} if not value.flags.c_contiguous and apart(value.shape, strides) else {}
        return {"array": key, "dtype": str(value.dtype), **steps}
    return {"value": value}


def _unpacked(node: Any, arrays: Mapping[str, Array]) -> Any:
    if "list" in node:
        return [_unpacked(n, arrays) for n in node["list"]]
    if "value" in node:
        return node["value"]
    array = arrays[node["array"]]
    if "format" in node:
        return Blocks(array, FORMATS[node["format"]])
    dtype = NAMED.get(str(node["dtype"]))
    wanted = node["dtype"] if dtype is None else BITS[dtype]
    if wanted not in PLAIN or str(array.dtype) != wanted:
        raise ValueError(f"{node['array']!r} is stored as {array.dtype}; {node['dtype']!r:.40} is said")
    values = _stepped(array, tuple(node["steps"])) if "steps" in node else array
    return values if dtype is None else values.view(dtype)


def _stepped(values: Array, steps: tuple[int, ...]) -> Array:
    """The same values, so many elements apart along each axis."""
    if not values.size or not apart(values.shape, steps):
        raise ValueError(f"strides {list(steps)} for shape {list(values.shape)}: too few, or elements share a place")
    ends = sum((n - 1) * s for n, s in zip(values.shape, steps, strict=True)) + 1
    if max(ends, prod(values.shape)) * values.itemsize > LARGEST:
        raise ValueError(f"strides {list(steps)} take {ends} elements")
    whole = np.zeros(ends, values.dtype)
    shown = np.lib.stride_tricks.as_strided(whole, values.shape, [s * values.itemsize for s in steps])
    shown[...] = values
    return shown


def apart(shape: tuple[int, ...], steps: tuple[Any, ...]) -> bool:
    """Whether strides are whole numbers, one an axis, none negative, and no two elements share a place."""
    if len(steps) != len(shape) or not all(type(s) is int and s >= 0 for s in steps):
        return False
    reach = 1
    for n, s in sorted(zip(shape, steps, strict=True), key=lambda pair: pair[1]):
        if n > 1 and s < reach:
            return False
        reach += (n - 1) * s
    return True
