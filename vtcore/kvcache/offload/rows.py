"""A page's bytes: its rows of all arrays of its group, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.kvcache.cache import Cache

Array = np.ndarray[Any, Any]


class Rows:
    """Of one cache, in whatever memory its rows are true."""

    def __init__(self, cache: Cache) -> None:
        self._storages = {
            group: [t.storage for key, spec in cache.specs.items() if spec.group == group for t in cache.arrays[key].values()]
            for group in cache.groups
        }

    def nbytes(self, group: str) -> int:
        """Bytes of one page."""
        return sum(s.nbytes // s.rows for s in self._storages[group])

    def read(self, group: str, page: int) -> Array:
        """A copy of a page: uint8 [nbytes]."""
        data, at = np.empty(self.nbytes(group), np.uint8), 0
        for storage in self._storages[group]:
            size = storage.nbytes // storage.rows
            storage.read_row(page, data[at : at + size])
            at += size
        return data

    def write(self, group: str, page: int, data: Array) -> None:
        """Make a page what `read` gave."""
        at = 0
        for storage in self._storages[group]:
            size = storage.nbytes // storage.rows
            storage.write_row(page, data[at : at + size])
            at += size
