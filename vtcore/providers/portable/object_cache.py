"""Compiled objects on disk, each checked when it is read: what isn't there, or isn't right, is compiled again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from vtcore.kernel_files import KernelFiles, kernel_files


class ObjectCache:
    """Bytes by key. An entry is sealed, and holds the digest of its key before the bytes: one that is cut off, damaged or another's counts
    as absent."""

    def __init__(self, files: KernelFiles | None = None) -> None:
        self.files = files or kernel_files()
        self.writable = True  # until a write fails: then what is compiled lives in this process alone

    def get(self, key: str) -> bytes | None:
        """The bytes stored under a key, or None."""
        digest, data = _digest(key), self.files.sealed(self._path(key))
        return data[len(digest) :] if data is not None and data.startswith(digest) else None

    def put(self, key: str, data: bytes) -> None:
        """Publish bytes under a key: whole, or not at all."""
        if self.writable:
            self.writable = self.files.put(self._path(key), _digest(key) + data, seal=True)

    def _path(self, key: str) -> Path:
        return self.files.directory / f"{_digest(key).hex()[:40]}.o"


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
