"""Bytes and where they are true: a Storage has copies in memories, and knows of each row which of them holds what was written last."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import perf_counter
from typing import Any

import numpy as np

from vtcore import system_pages
from vtcore.memory import HOST, Array, Held, Memory

TRUE = np.ones(1, bool)
Moved = Callable[["Storage", Memory, Memory, int, float], None]  # what went from where to where: bytes, and seconds of the host's


class Storage:
    """Bytes in `rows` equal parts (the pages or slots of a cache; else 1). valid[m][row]: the copy in memory m is true.

    A row that nobody has written is zeros, and is true in every copy as soon as the copy exists."""

    __slots__ = ("__weakref__", "_address", "apart", "copies", "forms", "nbytes", "rows", "shared", "valid", "written")

    def __init__(self, nbytes: int, rows: int = 1) -> None:
        self.nbytes, self.rows = nbytes, rows
        self.shared: Memory | None = None  # whose copy is the same bytes as the host's
        self.apart = False  # its copies are never the same bytes: somebody writes to the host's without asking
        self.copies: dict[Memory, Held] = {}  # one that is there stays
        self._address = 0
        self.valid: dict[Memory, Array] = {}
        self.written = np.zeros(rows, bool)
        self.forms: dict[Hashable, Any] = {}  # what providers made of these bytes: kept as long as they are the same

    @classmethod
    def holding(cls, nbytes: int, memory: Memory, held: Held) -> Storage:
        """Bytes that are true in one memory."""
        storage = cls(nbytes)
        storage.copies[memory], storage.valid[memory] = held, TRUE.copy()
        storage.written = TRUE.copy()
        return storage

    @property
    def address(self) -> int:
        """Where the host's copy begins."""
        if not self._address:
            self._address = self.copies[HOST].buffer.__array_interface__["data"][0]
        return self._address

    def at(self, memory: Memory, which: Array | None = None, moved: Moved | None = None) -> Held:
        """The buffer in a memory, with the rows `which` (None: all) true there: copies what is missing, and reports it."""
        held = self.copies.get(memory)
        if held is not None and len(self.copies) == 1:  # the only copy is true
            return held
        if held is None:
            held = self._room(memory)
        valid = self.valid[memory]
        missing = np.flatnonzero(~valid) if which is None else which[~valid[which]]
        if len(missing):
            self._bring(memory, held, missing, moved)
            valid[missing] = True
        return held

    def _room(self, memory: Memory) -> Held:
        """A copy's place: the same bytes as another's where they can be shared with the host."""
        held = None
        if not self.apart and self.shared is None:
            if memory is HOST:
                for other, there in self.copies.items():
                    if (view := other.view(there)) is not None:
                        if not self.written.all():
                            other.synchronize()  # what nobody has written may still have to be made zeros
                        held, self.shared = Held(view[: self.nbytes], 0, None), other
            elif HOST in self.copies and (held := memory.adopt(self.copies[HOST].buffer[: self.nbytes])) is not None:
                self.shared = memory
        held = held or memory.alloc(self.nbytes, zero=not self.written.all())
        self.copies[memory], self.valid[memory] = held, ~self.written
        return held

    def ask(self) -> None:
        """Wait until the host may write to its copy: a device that shares the bytes has done what it was told to."""
        if self.shared is not None:
            self.shared.synchronize()

    def _bring(self, memory: Memory, held: Held, missing: Array, moved: Moved | None) -> None:
        size, left = self.nbytes // self.rows, missing
        for source, true in list(self.valid.items()):
            mine, left = left[true[left]], left[~true[left]]
            for begin, end in runs(mine):
                span = slice(begin * size, end * size)
                host, began = self._host()[span], perf_counter()
                if source is self.shared:
                    source.synchronize()
                elif source is not HOST:
                    source.download(self.copies[source], span.start, host)
                self.valid[HOST][begin:end] = True  # through the host, whose copy becomes true too
                if memory is not HOST and memory is not self.shared:
                    memory.upload(held, span.start, host)
                if moved:
                    nbytes = 0 if self.shared is not None and {source, memory} == {HOST, self.shared} else span.stop - span.start
                    moved(self, source, memory, nbytes, perf_counter() - began)
        assert not len(left), f"rows {left} are true nowhere"

    def _host(self) -> Array:
        if HOST not in self.copies:
            self._room(HOST)
        buffer: Array = self.copies[HOST].buffer
        return buffer

    def wrote(self, memory: Memory, which: Array | None = None) -> None:
        """The rows `which` were changed in this memory: every other copy of them is false now."""
        rows: Any = slice(None) if which is None else which
        for m, v in self.valid.items():
            v[rows] = m is memory
        self.written[rows] = True
        self.forms.clear()

    def copy_row(self, source: int, target: int) -> None:
        """Make a row what another is, wherever that one is true."""
        size = self.nbytes // self.rows
        self.ask()
        for memory, held in self.copies.items():
            if self.valid[memory][source] and not (memory is self.shared and self.valid[HOST][source]):
                memory.copy(held, source * size, target * size, size)
            self.valid[memory][target] = self.valid[memory][source]
        self.written[target] = self.written[source]
        self.forms.clear()

    def read_row(self, row: int, out: Array) -> None:
        """Copy a row's bytes out, uint8 [nbytes / rows], from a memory where it is true."""
        source = next((m for m, true in self.valid.items() if true[row]), None)
        if source is None:
            out[:] = 0  # nobody has written it
        else:
            source.download(self.copies[source], row * out.nbytes, out)

    def write_row(self, row: int, data: Array) -> None:
        """Make a row these bytes, in every memory that has a copy, and in the host's where none has."""
        if not self.copies:
            self._host()
        self.ask()
        for memory, held in self.copies.items():
            if memory is not self.shared:
                memory.upload(held, row * data.nbytes, data)
            self.valid[memory][row] = True
        self.written[row] = True
        self.forms.clear()

    def sparse(self) -> None:
        """Rows will be given back one by one: the host's copy is made of small pages, and now."""
        self._host()
        system_pages.keep_small(self.address, self.nbytes)
        if not self.written.any():  # zeros, but perhaps of pages that held something else before, which cost memory already
            system_pages.give_back(self.address, self.nbytes)

    def give_back(self, row: int) -> None:
        """A row is not needed until it is written again, and may hold anything then: in the host's memory it costs nothing."""
        size = self.nbytes // self.rows
        system_pages.give_back(self.address + row * size, size)

    def __del__(self) -> None:
        if self.shared is not None and self.copies[HOST].nbytes == 0:
            del self.copies[HOST]  # a view of the other's bytes, which are looked at no longer
        for memory, held in self.copies.items():
            memory.release(held)


def runs(index: Array) -> list[tuple[int, int]]:
    """Sorted indices as half-open runs."""
    if not len(index):
        return []
    cuts = np.flatnonzero(np.diff(index) != 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(index, cuts)]
