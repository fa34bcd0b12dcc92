"""Results against files, and into files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.simt.trial import Finding, Result
from vtcore.simt.values import Array
from vtcore.written import writing


def pairs(words: Sequence[str], names: Sequence[str]) -> dict[str, Path]:
    """NAME=FILE by buffers' names. Raises ArgumentError."""
    out: dict[str, Path] = {}
    for word in words:
        name, _, file = word.partition("=")
        if name not in names or not file or name in out:
            raise ArgumentError(f"{word!r} is no NAME=FILE with the name of a buffer ({', '.join(names)}), each once")
        out[name] = Path(file)
    return out


def against(result: Result, expected: Mapping[str, Path], tolerance: float) -> None:
    """Adds a finding for each buffer that is further from its file than the tolerance allows, or not of its shape."""
    for name, path in expected.items():
        want, got = load(path), result.arrays.get(name)
        if got is None:
            continue  # nothing came of the run, which is a finding already
        if want.shape != got.shape:
            raise ArgumentError(f"{path} has the shape {list(want.shape)}; {name} has {list(got.shape)}")
        off = np.abs(got.astype(np.float64) - want)
        allowed = tolerance * float(np.max(np.abs(want), initial=0)) if got.dtype.kind == "f" else 0.0
        if not (off <= allowed).all():
            at = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), got.shape)
            place = ", ".join(str(int(i)) for i in at)
            result.findings.append(Finding("value", f"{name}[{place}] is {got[at]}; {path} has {want[at]}, and {allowed:.3g} is allowed"))


def written(result: Result, out: Mapping[str, Path]) -> None:
    """Writes buffers to files."""
    for name, path in out.items():
        if name in result.arrays:
            save(path, result.arrays[name])


def load(path: Path) -> Array:
    """An .npy file. Raises ArgumentError."""
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as wrong:
        raise ArgumentError(f"{path} is no .npy file that can be read: {wrong}") from wrong
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise ArgumentError(f"{path} holds no numbers")
    return array


def save(path: Path, array: Array) -> Path:
    """Writes one, under just this name."""
    with writing(path) as file:
        np.save(file, array, allow_pickle=False)
    return path
