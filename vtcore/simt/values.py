"""What a kernel is given on the command line: NAME=VALUE, by the names of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError, nearest
from vtcore.simt.program import Layout
from vtcore.simt.signature import DTYPES, Parameter, Signature

Array = np.ndarray[Any, Any]
MAKERS = ("zeros", "random", "empty")
LARGEST = 1 << 30  # bytes of one buffer


@dataclass
class Given:
    """Arrays by the buffers' names, the numbers as a kernel reads them, and the bytes of shared memory that a launch asks for."""

    arrays: dict[str, Array]
    packed: bytes
    room: int = 0
    empty: frozenset[str] = field(default_factory=frozenset)  # buffers that hold nothing before


def given(kernel: Signature, words: Sequence[str], seed: int) -> Given:
    """All parameters of a kernel, from words such as x=x.npy, y=zeros:4x8, n=32. Raises ArgumentError, with all that is missing."""
    values = _split(words)
    shared = [p.name for p in kernel.parameters if p.kind == "shared"]
    needed = [p.name for p in (*kernel.buffers, *kernel.scalars)] + shared
    if unknown := [n for n in values if n not in (*needed, "shared")]:
        hint = nearest(unknown[0], needed)
        raise ArgumentError(f"kernel {kernel.name} has no parameter {', '.join(unknown)}{hint}; it has {', '.join(needed)}")
    if missing := [n for n in needed if n not in values]:
        raise ArgumentError(
            f"kernel {kernel.name} isn't given {', '.join(missing)}: name a value of each, such as {_example(kernel, missing[0])}"
        )
    rng = np.random.default_rng(seed)
    arrays = {p.name: _array(p, values[p.name], rng) for p in kernel.buffers}
    empty = frozenset(p.name for p in kernel.buffers if values[p.name].startswith("empty:"))
    room = max((_size(n, values[n]) for n in (*shared, "shared") if n in values), default=0)
    return Given(arrays, _packed(kernel, values), room, empty)


def _split(words: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise ArgumentError(f"{word!r} is no NAME=VALUE")
        if name in values:
            raise ArgumentError(f"{name} is given twice")
        values[name] = value
    return values


def _example(kernel: Signature, name: str) -> str:
    kinds = {p.name: p.kind for p in kernel.parameters}
    return {"buffer": f"{name}=random:1024", "shared": f"{name}=1024 (bytes)"}.get(kinds.get(name, ""), f"{name}=1024")


def _array(p: Parameter, value: str, rng: np.random.Generator) -> Array:
    if p.type not in DTYPES:
        raise ArgumentError(f"buffer {p.name} is of {p.type}, which isn't known here; there are {', '.join(sorted(DTYPES))}")
    dtype, (how, _, shape) = np.dtype(DTYPES[p.type]), value.partition(":")
    if how not in MAKERS:
        return _file(p, value, dtype)
    sizes = shape.split("x")
    if not all(s.isascii() and s.isdigit() and 0 < len(s) < 12 for s in sizes) or prod(map(int, sizes)) * dtype.itemsize > LARGEST:
        raise ArgumentError(f"{p.name}={value!r}: {how} takes a shape such as 4x1024, of at most {LARGEST:,} bytes")
    numbers = tuple(map(int, sizes))
    if how != "random":
        return np.zeros(numbers, dtype)
    return rng.standard_normal(numbers).astype(dtype) if dtype.kind == "f" else rng.integers(0, 100, numbers).astype(dtype)


def _file(p: Parameter, value: str, dtype: np.dtype[Any]) -> Array:
    try:
        array: Array = np.load(Path(value), allow_pickle=False)
    except (OSError, ValueError, EOFError) as wrong:
        raise ArgumentError(
            f"{p.name}={value!r}: it is neither {', '.join(f'{m}:SHAPE' for m in MAKERS)} nor an .npy file that can be read ({wrong})"
        ) from wrong
    if not isinstance(array, np.ndarray) or array.dtype != dtype:
        raise ArgumentError(
            f"{p.name}={value!r} holds {getattr(array, 'dtype', type(array).__name__)}; the kernel reads {p.type}, which is {dtype}"
        )
    return np.ascontiguousarray(array)


def _packed(kernel: Signature, values: Mapping[str, str]) -> bytes:
    layout = Layout(kernel)
    out = bytearray(layout.nbytes)
    for p in kernel.scalars:
        dtype = np.dtype(DTYPES[p.type])
        raw, at = _number(p, values[p.name], dtype), layout.offsets[p.name]
        out[at : at + dtype.itemsize] = raw
    return bytes(out)


def _number(p: Parameter, text: str, dtype: np.dtype[Any]) -> bytes:
    try:
        value = float(text) if dtype.kind == "f" else int(text, 0)
        if dtype.kind != "f" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
            raise ValueError(text)
    except ValueError:
        raise ArgumentError(f"{p.name}={text!r} is no {p.type}") from None
    return np.array(value, dtype).tobytes()


def _size(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 1 << 20:
        raise ArgumentError(f"{name}={text!r}: shared memory is a number of bytes, at most {1 << 20:,}")
    return int(text)
