"""Compiled objects on disk: checked, bounded, and safe with several processes. Losing any of it costs a recompilation, nothing else."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from vtcore.caches import cache_directory
from vtcore.written import keep

MAGIC = b"vtcore object 1\n"
DIGEST = hashlib.sha256().digest_size
LIMIT = 128 << 20  # bytes of all entries together
BETWEEN = 32  # entries that are added between two looks at the total
ABANDONED = 600  # seconds after which a file that was never renamed belongs to a process that is gone


class ObjectCache:
    """Bytes by key. An entry is MAGIC, sha256(key and bytes), the bytes; one that is cut off, damaged or foreign counts as absent."""

    def __init__(self, directory: Path | None = None, limit: int = LIMIT) -> None:
        self.directory, self.limit = directory or cache_directory() / "kernels", limit
        self.writable = True  # until a write fails: then what is compiled lives in this process alone
        self._puts = 0

    def get(self, key: str) -> bytes | None:
        """The bytes stored under a key, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            if data[: len(MAGIC) + DIGEST] != self._header(key, data[len(MAGIC) + DIGEST :]):
                return None
            os.utime(path)  # the oldest go first when the cache is full
        except OSError:
            return None
        return data[len(MAGIC) + DIGEST :]

    def put(self, key: str, data: bytes) -> None:
        """Publish bytes under a key: whole, or not at all."""
        if not self.writable:
            return
        try:
            if self._puts % BETWEEN == 0:
                self._make_room()
            self._puts += 1
            self.writable = keep(self._path(key), self._header(key, data) + data)
        except OSError:
            self.writable = False

    def entries(self) -> list[tuple[Path, int]]:
        """Files and their sizes, least recently used first."""
        found = []
        for path in self.directory.glob("*.*") if self.directory.is_dir() else ():  # beside them are folders of accelerators' kernels
            try:
                stat = path.stat()
            except OSError:  # another process took it away
                continue
            found.append((stat.st_mtime, path, stat.st_size))
        return [(path, size) for _, path, size in sorted(found)]

    def clear(self) -> int:
        """Remove every entry: how many there were."""
        paths = [path for path, _ in self.entries()]
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    def _make_room(self) -> None:
        entries = self.entries()
        total = sum(size for _, size in entries)
        for path, size in entries:
            if total > self.limit or (path.suffix == ".tmp" and path.stat().st_mtime < time.time() - ABANDONED):
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(key.encode()).hexdigest()[:40]}.o"

    def _header(self, key: str, data: bytes) -> bytes:
        return MAGIC + hashlib.sha256(key.encode() + b"\n" + data).digest()
