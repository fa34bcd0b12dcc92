"""Semaphores of the system as bare addresses that native code can call: wait(handle, -1), post(handle, 1, 0), yield()."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np


class Semaphores:
    """`count` of them. The three calls have the same shape on every system: the arguments that one doesn't take, it ignores."""

    def __init__(self, count: int) -> None:
        self.memory: Any = None
        library, names, self.handles = self._windows(count) if sys.platform == "win32" else self._posix(count)
        self.give_way, self.wait, self.post = (_address(getattr(library, n)) for n in names)

    def _posix(self, count: int) -> tuple[Any, tuple[str, str, str], list[int]]:
        library = ctypes.CDLL(None)
        if sys.platform == "darwin":  # unnamed sem_t don't exist there
            library.dispatch_semaphore_create.restype = ctypes.c_void_p
            handles = [library.dispatch_semaphore_create(ctypes.c_long(0)) for _ in range(count)]
            return library, ("sched_yield", "dispatch_semaphore_wait", "dispatch_semaphore_signal"), handles
        self.memory = np.zeros((count, 64), np.uint8)  # room for a sem_t each
        handles = [self.memory.ctypes.data + 64 * i for i in range(count)]
        for handle in handles:
            library.sem_init(ctypes.c_void_p(handle), 0, 0)
        return library, ("sched_yield", "sem_wait", "sem_post"), handles

    def _windows(self, count: int) -> tuple[Any, tuple[str, str, str], list[int]]:
        library: Any = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009  (absent from other systems' type stubs)
        library.CreateSemaphoreW.restype = ctypes.c_void_p
        handles = [library.CreateSemaphoreW(None, 0, 1 << 30, None) for _ in range(count)]
        return library, ("SwitchToThread", "WaitForSingleObject", "ReleaseSemaphore"), handles


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
