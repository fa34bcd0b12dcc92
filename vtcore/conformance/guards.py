"""Guard bands: bytes around what a kernel may touch, which must be the same afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from vtcore.memory import ALIGNMENT, HOST, Held, Memory

Array = np.ndarray[Any, Any]
BAND = 512  # bytes on each side: a vector or two, and a cache line
FILL = 0xFF  # NaN as a float of any width, -1 as an integer: what is read by mistake shows


class Guarded:
    """Host bytes between two bands, at an aligned address."""

    def __init__(self, nbytes: int) -> None:
        raw = np.empty(nbytes + 2 * BAND + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        self.whole = raw[start : start + nbytes + 2 * BAND]
        self.whole[...] = FILL
        self.inside = self.whole[BAND : BAND + nbytes]

    @property
    def intact(self) -> bool:
        """Whether both bands are as they were."""
        return bool((self.whole[:BAND] == FILL).all() and (self.whole[-BAND:] == FILL).all())

    def overlaps(self, array: Array) -> bool:
        """Whether an array lies in these bytes, or partly."""
        return bool(np.may_share_memory(self.whole, array))


class Outputs:
    """What a memory gave a kernel while it ran: filled with FILL, and with bands around (of a memory other than the host's, behind)."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._host: list[Guarded] = []
        self._far: list[tuple[Held, int]] = []
        self._kept = True  # the bands of what was given back and given out again

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Inside, the memory allocates through here."""
        plain = self.memory.alloc

        def alloc(nbytes: int, zero: bool = False, scratch: bool = False) -> Held:
            return self._near(nbytes, zero) if self.memory is HOST else self._behind(plain(nbytes + BAND, zero, scratch), nbytes, zero)

        self.memory.__dict__["alloc"] = alloc
        try:
            yield
        finally:
            del self.memory.__dict__["alloc"]

    @property
    def intact(self) -> bool:
        """Whether nothing was written beside what was allocated."""
        return self._kept and all(g.intact for g in self._host) and all(self._band(held, nbytes) for held, nbytes in self._far)

    def _near(self, nbytes: int, zero: bool) -> Held:
        guarded = Guarded(nbytes)
        if zero:
            guarded.inside[...] = 0
        self._host.append(guarded)
        return Held(guarded.inside, 0, None)

    def _behind(self, held: Held, nbytes: int, zero: bool) -> Held:
        self._again(held)
        begin = nbytes if zero else 0
        self.memory.upload(held, begin, np.full(nbytes + BAND - begin, FILL, np.uint8))
        self._far.append((held, nbytes))
        return held

    def _again(self, held: Held) -> None:
        """A kernel's own temporaries go back to the pool while it runs: their bands are looked at before somebody else has the piece."""
        place = self.memory.place(held)
        before = [(h, n) for h, n in self._far if self.memory.place(h) is place]
        self._kept = self._kept and all(self._band(h, n) for h, n in before)
        self._far = [(h, n) for h, n in self._far if self.memory.place(h) is not place]

    def _band(self, held: Held, nbytes: int) -> bool:
        band = np.zeros(BAND, np.uint8)
        self.memory.download(held, nbytes, band)
        return bool((band == FILL).all())
