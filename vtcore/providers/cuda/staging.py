"""Copies between the host and a device through pinned memory, which the device reads by itself while the host goes on."""

from __future__ import annotations

import ctypes
from contextlib import ExitStack
from typing import Any

import numpy as np

from vtcore.memory import Array
from vtcore.providers.cuda.driver import Driver

SLOTS, SIZE = 4, 8 << 20  # parts of the pinned memory, and bytes of each
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class Staging:
    """A ring of pinned parts, each with an event that tells when the device has read it. `made` gives all of it back."""

    def __init__(self, driver: Driver, stream: Any, made: ExitStack) -> None:
        self.driver, self.stream = driver, stream
        self._address = int(driver("cuMemHostAlloc", SLOTS * SIZE, 0))
        made.callback(driver, "cuMemFreeHost", self._address)
        whole = (ctypes.c_uint8 * (SLOTS * SIZE)).from_address(self._address)
        self._parts: Array = np.ctypeslib.as_array(whole).reshape(SLOTS, SIZE)
        self._events = list[Any]()
        for _ in range(SLOTS):
            self._events.append(driver("cuEventCreate", NO_TIMING))
            made.callback(driver, "cuEventDestroy", self._events[-1])
        self._next = 0

    def upload(self, to: int, host: Array) -> None:
        """The host's array may change as soon as this returns."""
        flat = host.reshape(-1).view(np.uint8)
        for begin in range(0, flat.nbytes, SIZE):
            piece = flat[begin : begin + SIZE]
            slot = self._free()
            self._parts[slot, : piece.nbytes] = piece
            self.driver("cuMemcpyHtoDAsync", to + begin, self._address + slot * SIZE, piece.nbytes, self.stream)
            self.driver("cuEventRecord", self._events[slot], self.stream)

    def download(self, source: int, host: Array) -> None:
        """Waits for all that was enqueued."""
        flat = host.reshape(-1).view(np.uint8)
        for begin in range(0, flat.nbytes, SIZE):
            piece = flat[begin : begin + SIZE]
            slot = self._free()
            self.driver("cuMemcpyDtoHAsync", self._address + slot * SIZE, source + begin, piece.nbytes, self.stream)
            self.driver("cuStreamSynchronize", self.stream)
            piece[:] = self._parts[slot, : piece.nbytes]

    def _free(self) -> int:
        """The part that was used longest ago, once the device has read it."""
        slot, self._next = self._next, (self._next + 1) % SLOTS
        self.driver("cuEventSynchronize", self._events[slot])
        return slot
