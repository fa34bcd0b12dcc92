"""A directory of pages that is kept below a size by all who write to it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from vtcore.kvcache.offload.page_file import UNFINISHED

ABOUT = "identity.json"
ABANDONED = 3600.0  # seconds after which nobody will finish a file any more
FRESH = 1.0  # seconds for which the size is believed, though others may write
ROOM = 0.05  # of the capacity that is freed besides, so that not every page that comes makes one look for what goes


class Directory:
    """Files of pages in the folders of `root`. Those unused for longest go first, whichever process or model they are of."""

    def __init__(self, root: Path, capacity: int) -> None:
        self.root, self.capacity = root, capacity
        self.nbytes = self.evictions = 0
        self._measured = 0.0
        self.shrink()

    def names(self, folder: Path) -> list[str]:
        """Of the pages in a folder."""
        try:
            with os.scandir(folder) as entries:
                return [e.name for e in entries if e.name != ABOUT and not e.name.endswith(UNFINISHED)]
        except OSError:
            return []

    def grew(self, nbytes: int) -> None:
        """A file was written. Where that is too much, others go."""
        self.nbytes += nbytes
        if self.nbytes > self.capacity or time.monotonic() - self._measured > FRESH:
            self.shrink()

    def shrink(self) -> None:
        """Measure, and remove what is unused for longest until the rest fits."""
        files = sorted(self._files(), key=lambda f: f[0])
        self.nbytes, self._measured = int(sum(size for _, size, _ in files)), time.monotonic()
        aim = self.capacity if self.nbytes <= self.capacity else int(self.capacity * (1 - ROOM))
        for _, size, path in files:
            if self.nbytes <= aim:
                break
            with suppress(OSError):
                os.unlink(path)
                self.evictions += 1
            self.nbytes = int(self.nbytes - size)

    def _files(self) -> Iterator[tuple[float, float, str]]:
        """When each was used last, its bytes (of one with several names, a part for each), and where it is."""
        for folder in self._folders():
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name != ABOUT and (found := _look(entry)) is not None:
                        yield found

    def _folders(self) -> list[str]:
        """None where somebody has removed the whole directory, or nobody has made it."""
        try:
            with os.scandir(self.root) as entries:
                return [e.path for e in entries if e.is_dir(follow_symlinks=False) and os.path.exists(os.path.join(e.path, ABOUT))]
        except OSError:
            return []


def _look(entry: os.DirEntry[str]) -> tuple[float, float, str] | None:
    try:
        stat = os.stat(entry.path, follow_symlinks=False)  # an entry's own tells no links on Windows
    except OSError:
        return None
    if entry.name.endswith(UNFINISHED):
        if time.time() - stat.st_mtime > ABANDONED:
            with suppress(OSError):
                os.unlink(entry.path)
        return None
    return stat.st_mtime_ns, stat.st_size / max(1, stat.st_nlink), entry.path
