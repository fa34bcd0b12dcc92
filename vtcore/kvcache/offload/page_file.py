"""One page as a file: eight letters, the length of a header, the header in JSON, the bytes. What doesn't fit in every point is no page.

The header says whose page it is (`identity`: a digest of all that its bits depend on), which group's, by which keys, and the SHA-256 of
its bytes. A file is written beside its place and renamed, so that nobody reads half of one."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.kvcache.offload.tier import Address, Saved

MAGIC = b"vtkvpage"
HEAD = struct.Struct("<8sI")
MOST_HEADER = 1 << 20
UNFINISHED = ".part"
_numbers = itertools.count()


class DamagedPageError(Exception):
    """A file that is not the page that its name says. Whoever reads counts a miss."""


def write_page(path: Path, identity: str, page: Saved) -> int:
    """Publish a page: bytes of its file. OSError where the disk has no room; then nothing is left behind."""
    header = _header(identity, page)
    beside = path.with_name(f"{path.name}.{os.getpid()}-{next(_numbers)}{UNFINISHED}")
    try:
        with beside.open("xb") as file:
            file.write(HEAD.pack(MAGIC, len(header)) + header)
            file.write(page.data.data)
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    return HEAD.size + len(header) + page.data.nbytes


def read_page(path: Path, identity: str, address: Address, nbytes: int) -> Saved:
    """The page of `nbytes` bytes at a path. Raises FileNotFoundError, OSError, or DamagedPageError with what is wrong."""
    with path.open("rb") as file:
        header = _parse(file.read(HEAD.size), lambda length: file.read(length))
        keys = _keys(header, identity, address, nbytes)
        data = np.empty(nbytes, np.uint8)
        if file.readinto(data.data) != nbytes or file.read(1):
            raise DamagedPageError(f"it doesn't hold {nbytes} bytes after its header")
    if hashlib.sha256(data.data).hexdigest() != header.get("sha256"):
        raise DamagedPageError("its bytes don't have the checksum in its header")
    return Saved(address.group, keys, data)


def _header(identity: str, page: Saved) -> bytes:
    return json.dumps(
        {
            "identity": identity,
            "group": page.group,
            "keys": [key.hex() for key in page.keys],
            "nbytes": page.data.nbytes,
            "sha256": hashlib.sha256(page.data.data).hexdigest(),
        }
    ).encode()


def _parse(head: bytes, read: Any) -> dict[str, Any]:
    if len(head) < HEAD.size or head[:8] != MAGIC:
        raise DamagedPageError("it doesn't begin as a page does")
    length = HEAD.unpack(head)[1]
    if length > MOST_HEADER:
        raise DamagedPageError(f"its header would be {length} bytes long")
    try:
        header = json.loads(read(length))
    except ValueError as e:
        raise DamagedPageError("its header is no JSON") from e
    if not isinstance(header, dict):
        raise DamagedPageError("its header is no JSON object")
    return header


def _keys(header: dict[str, Any], identity: str, address: Address, nbytes: int) -> tuple[bytes, ...]:
    """Of a header that says what is expected."""
    for name, wanted in (("identity", identity), ("group", address.group), ("nbytes", nbytes)):
        if header.get(name) != wanted:
            raise DamagedPageError(f"its {name} is {header.get(name)!s:.80}; it must be {wanted}")
    keys = header.get("keys")
    if not isinstance(keys, list) or address.key.hex() not in keys:
        raise DamagedPageError("its keys are not those of its name")
    try:
        return tuple(bytes.fromhex(key) for key in keys)
    except (TypeError, ValueError) as e:
        raise DamagedPageError("its keys are no hexadecimal numbers") from e
