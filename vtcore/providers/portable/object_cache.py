"""Compiled objects on disk, each checked when it is read: what isn't there, or isn't right, is compiled again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from vtcore.kernel_files import KernelFiles, kernel_files, used

MAGIC = b"vtcore object 1\n"
DIGEST = hashlib.sha256().digest_size


class ObjectCache:
    """Bytes by key. An entry is MAGIC, sha256(key and bytes), the bytes; one that is cut off, damaged or foreign counts as absent."""

    def __init__(self, files: KernelFiles | None = None) -> None:
        self.files = files or kernel_files()
        self.writable = True  # until a write fails: then what is compiled lives in this process alone

    def get(self, key: str) -> bytes | None:
        """The bytes stored under a key, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            if data[: len(MAGIC) + DIGEST] != self._header(key, data[len(MAGIC) + DIGEST :]):
                return None
        except OSError:
            return None
        used(path)
        return data[len(MAGIC) + DIGEST :]

    def put(self, key: str, data: bytes) -> None:
        """Publish bytes under a key: whole, or not at all."""
        if self.writable:
            self.writable = self.files.put(self._path(key), self._header(key, data) + data)

    def _path(self, key: str) -> Path:
        return self.files.directory / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.o"

    def _header(self, key: str, data: bytes) -> bytes:
        return MAGIC + hashlib.sha256(key.encode() + b"\n" + data).digest()
