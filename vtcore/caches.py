"""What vtcore keeps on disk between runs: compiled kernels and fetched models, in one directory."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "VTCORE_CACHE"
KINDS = ("kernels", "models")


def cache_directory() -> Path:
    """Where this user's caches are: VTCORE_CACHE, else `vtcore` in the platform's directory for caches."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "vtcore"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "vtcore"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vtcore"


@dataclass(frozen=True)
class Kept:
    """One part of the cache: all kernels, or one model. `files` and their bytes, locks aside."""

    name: str
    path: Path
    files: int
    nbytes: int


def kept() -> list[Kept]:
    """All parts that hold something: the kernels, then the models by name."""
    root = cache_directory()
    models = sorted(p for p in (root / "models").glob("*") if p.is_dir())
    parts = [_part("kernels", root / "kernels"), *(_part(f"models/{p.name}", p) for p in models)]
    return [p for p in parts if p.files]


def clear(kind: str) -> int:
    """Remove the parts of a kind: how many bytes that frees. A process that uses them keeps what it has open, and makes the rest anew."""
    from filelock import FileLock

    freed = 0
    for part in kept():
        if part.name.split("/")[0] != kind:
            continue
        with FileLock(part.path / "lock"):  # the one that is held while a model is fetched
            freed += sum(_remove(path) for path in _files(part.path))
    return freed


def _part(name: str, path: Path) -> Kept:
    sizes = [size for file in _files(path) if (size := _size(file)) is not None]
    return Kept(name, path, len(sizes), sum(sizes))


def _files(path: Path) -> list[Path]:
    return [p for p in path.rglob("*") if p.name != "lock" and p.is_file()]


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:  # another process took it away
        return None


def _remove(path: Path) -> int:
    size = _size(path) or 0
    path.unlink(missing_ok=True)
    return size
