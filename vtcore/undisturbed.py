"""A lock under which Ctrl-C waits, so that nothing that it guards is left half changed; and a block under which libraries are imported."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def importing() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until it is left: NumPy and others make of what is raised while they are imported an error of their own."""
    if not _main():  # no signal is told to another thread
        yield
        return
    came: list[int] = []
    usual = {which: signal.signal(which, lambda number, _: came.append(number)) for which in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for which, handler in usual.items():
            signal.signal(which, handler)
        for number in came[:1]:
            signal.raise_signal(number)


class Undisturbed:
    """Used as an RLock is. An interrupt that reaches the main thread inside is raised when the outermost block is left; or at once, inside
    of `disturbable`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0  # of the main thread's blocks
        self._usual: Handler | None = None  # what is called on an interrupt, while that is held back
        self._came: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if _main():
            self._hold()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if _main():
            self._let_go()

    @contextmanager
    def disturbable(self) -> Iterator[None]:
        """Around what may take long, and leaves everything in order wherever it ends."""
        if self._usual is None or not _main():
            yield
            return
        signal.signal(signal.SIGINT, self._usual)
        try:
            self._tell(self._usual)
            yield
        finally:
            signal.signal(signal.SIGINT, self._note)

    def _hold(self) -> None:
        if not self._depth and callable(usual := signal.getsignal(signal.SIGINT)):
            self._usual = usual
            signal.signal(signal.SIGINT, self._note)
        self._depth += 1

    def _let_go(self) -> None:
        self._depth -= 1
        if not self._depth and (usual := self._usual) is not None:
            self._usual = None
            signal.signal(signal.SIGINT, usual)
            self._tell(usual)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came = number, frame

    def _tell(self, usual: Handler) -> None:
        if (came := self._came) is not None:
            self._came = None
            usual(*came)


def _main() -> bool:
    return threading.current_thread() is threading.main_thread()
