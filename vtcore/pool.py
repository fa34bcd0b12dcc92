"""Buffers of a memory that wait to be used again, by size."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

Drop = Callable[[int, Any], None]  # a buffer's size and the buffer, which nobody has any more
LARGE = 1 << 20  # bytes from which on a buffer may stand for a smaller one
SPARE = 32 << 20  # bytes that may always wait


class Pool:
    """All that was given back waits: as it must of a recorded step, whose replays use the same buffers in the same order.

    `give` is called by whatever thread, also by the collector in the middle of anything: what comes back is put in its place later."""

    def __init__(self, drop: Drop) -> None:
        self._drop, self._closed = drop, False
        self._waiting: OrderedDict[int, list[Any]] = OrderedDict()  # the size that has waited longest comes first
        self._returned: deque[tuple[int, Any]] = deque()
        self._lock = threading.Lock()
        self.idle = 0  # bytes that wait

    @property
    def nbytes(self) -> int:
        """Bytes that wait."""
        with self._lock:
            self._settle()
            return self.idle

    def take(self, size: int) -> tuple[int, Any] | None:
        """A buffer of so many bytes, or a large one of up to twice as many, with its size; None: there is none."""
        with self._lock:
            self._settle()
            found = self._fitting(size)
            if found is None:
                return None
            buffer = self._out(found)
            self._used(found)
            return found, buffer

    def took(self, size: int) -> None:
        """A fresh buffer was made, which will come back here."""
        with self._lock:
            self._used(size)
            self._trim()

    def give(self, size: int, buffer: Any) -> None:
        """A buffer is free. None: one that came from here is not coming back."""
        if self._closed and buffer is not None:
            self._drop(size, buffer)
        else:
            self._returned.append((size, buffer))

    def clear(self) -> None:
        """Drop what waits."""
        with self._lock:
            self._settle()
            while self._waiting:
                self._lose()

    def close(self) -> None:
        """Drop what waits, and what comes back from now on."""
        self._closed = True
        self.clear()

    def _fitting(self, size: int) -> int | None:
        if size in self._waiting or size < LARGE:
            return size if size in self._waiting else None
        return min((s for s in self._waiting if size <= s <= 2 * size), default=None)

    def _settle(self) -> None:
        while self._returned:
            size, buffer = self._returned.popleft()
            self._back(size)
            if buffer is not None:
                self._waiting.setdefault(size, []).append(buffer)
                self._waiting.move_to_end(size)
                self.idle += size
        self._trim()

    def _out(self, size: int) -> Any:
        waiting = self._waiting[size]
        buffer = waiting.pop()
        if not waiting:
            del self._waiting[size]
        self.idle -= size
        return buffer

    def _lose(self) -> None:
        size = next(iter(self._waiting))
        self._drop(size, self._out(size))

    # What pools do that don't keep everything:

    def _used(self, size: int) -> None:
        """So many bytes are out."""

    def _back(self, size: int) -> None:
        """So many bytes are not out any more."""

    def _trim(self) -> None:
        """Drop what is too much."""


class Lasting(Pool):
    """Of what is kept for long, or small: weights, caches, inputs. No more than SPARE bytes wait, and nothing large."""

    def give(self, size: int, buffer: Any) -> None:
        if size >= LARGE and buffer is not None:
            self._drop(size, buffer)
        else:
            super().give(size, buffer)

    def _trim(self) -> None:
        while self.idle > SPARE:
            self._lose()


class Scratch(Pool):
    """Of what ops give. All that is made is at most a quarter more than was ever out at once, or SPARE bytes: steps of ever new lengths
    use other sizes each, and what none has used for long goes."""

    def __init__(self, drop: Drop) -> None:
        super().__init__(drop)
        self.busy = self.peak = 0  # bytes that are out, and the most that were

    def _used(self, size: int) -> None:
        self.busy += size
        self.peak = max(self.peak, self.busy)

    def _back(self, size: int) -> None:
        self.busy -= size

    def _trim(self) -> None:
        most = max(SPARE, self.peak + self.peak // 4)
        while self._waiting and self.idle + self.busy > most:
            self._lose()
