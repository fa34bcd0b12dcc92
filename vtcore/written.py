"""Files that are written: whole, or not at all and with an error that names them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

SEAL = hashlib.sha256().digest_size


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that somebody asked for. What was half written when a disk was full is removed. Raises OSError with the file's name."""
    try:
        file = path.open("wb")
    except OSError as wrong:
        raise _named(wrong, path) from None
    try:
        with file:
            yield file
    except OSError as wrong:
        if path.is_file():  # and not a pipe or a device
            path.unlink()
        raise _named(wrong, path) from None


def write(path: Path, data: str | bytes) -> None:
    """All of a file, text in UTF-8. Raises OSError with its name."""
    with writing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def keep(path: Path, data: bytes) -> bool:
    """Put what can be made again into a cache, at once: another process sees all of it, or none.

    False where there is no room, or no right to write there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        return False
    return True


def keep_sealed(path: Path, data: bytes) -> bool:
    """As `keep`, with a checksum before it: what a driver is given unread must be what was written."""
    return keep(path, hashlib.sha256(data).digest() + data)


def sealed(path: Path) -> bytes | None:
    """What `keep_sealed` put there. None where there is nothing, or anything else: it is to be made again."""
    try:
        kept = path.read_bytes()
    except OSError:
        return None
    seal, data = kept[:SEAL], kept[SEAL:]
    return data if hashlib.sha256(data).digest() == seal else None


def _named(wrong: OSError, path: Path) -> OSError:
    """The same with the file's name, which an error of writing lacks."""
    return wrong if wrong.filename is not None else OSError(wrong.errno, wrong.strerror, str(path))
