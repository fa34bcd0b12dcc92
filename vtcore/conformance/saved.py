"""Cases as files: an .npz with the arrays of one call by name, and `call`, the rest of it as JSON. Strides are kept, since a kernel may
fail on them alone."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
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

Array = np.ndarray[Any, Any]
CALL = "call"
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)  # which .npz lacks: kept as the same bits in uint16
LARGEST = 1 << 32  # bytes that an array may take: strides in a file could ask for any amount


def pack(case: Case) -> dict[str, Array]:
    """A case as plain arrays by name."""
    arrays: dict[str, Array] = {}
    tree = {name: _packed(name, value, arrays) for name, value in case.call.items()}
    head = {"op": case.op.name, "seed": case.seed, "number": case.number, "source": case.source, "arguments": tree}
    return {CALL: np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays}


def unpack(arrays: Mapping[str, Array]) -> Case:
    """The case that `pack` packed. ArgumentError for anything else, OpError where the op doesn't take the call."""
    try:
        head = json.loads(bytes(arrays[CALL]))
        op = REGISTRY[head["op"]]
        call = {name: _unpacked(node, arrays) for name, node in head["arguments"].items()}
        case = Case(op, op.bind(**call), int(head["seed"]), int(head["number"]), head["source"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ArgumentError(
            f"not a saved case: {type(error).__name__}: {error}; it must be a file that `vtcore check --save` wrote"
        ) from error
    op.validate(case.call)
    return case


def save(case: Case, path: str | Path) -> None:
    """Write a case as an .npz file."""
    with open(path, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **pack(case))


def load(path: str | Path) -> Case:
    """Read a case from an .npz file. ArgumentError for a file that holds none."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return unpack({name: arrays[name] for name in arrays.files})
    except FileNotFoundError:
        raise ArgumentError(f"there is no file {str(path)!r}") from None
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from error
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ArgumentError(f"{path} can't be read as .npz: {error}") from error


def _packed(key: str, value: Any, arrays: dict[str, Array]) -> Any:
    if isinstance(value, (list, tuple)):
        return {"list": [_packed(f"{key}.{i}", v, arrays) for i, v in enumerate(value)]}
    if isinstance(value, Blocks):
        arrays[key] = np.ascontiguousarray(value.data)
        return {"array": key, "format": value.dtype.name}
    if isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value).reshape(value.shape)
        arrays[key] = plain.view(np.uint16) if value.dtype == BFLOAT16 else plain
        steps = {} if value.flags.c_contiguous else {"steps": [s // value.itemsize for s in value.strides]}
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
    values = array.view(BFLOAT16) if node["dtype"] == "bfloat16" else array
    return _stepped(values, tuple(node["steps"])) if "steps" in node else values


def _stepped(values: Array, steps: tuple[int, ...]) -> Array:
    """The same values, so many elements apart along each axis."""
    if len(steps) != values.ndim or min(steps) < 0 or not values.size:
        raise ValueError(f"strides {list(steps)} for shape {list(values.shape)}")
    ends = sum((n - 1) * s for n, s in zip(values.shape, steps, strict=True)) + 1
    if max(ends, prod(values.shape)) * values.itemsize > LARGEST:
        raise ValueError(f"strides {list(steps)} take {ends} elements")
    whole = np.zeros(ends, values.dtype)
    shown = np.lib.stride_tricks.as_strided(whole, values.shape, [s * values.itemsize for s in steps])
    shown[...] = values
    return shown
