"""The way to memory that the host doesn't see: through a buffer that both see, a part at a time."""

from __future__ import annotations

from vtcore.memory import Array
from vtcore.providers.vulkan.heap import Buffer, Heap
from vtcore.providers.vulkan.queue import Queue

SIZE = 8 << 20


class Staging:
    """Its bytes are handed out in order; when they are used up, and after every wait, from the beginning again."""

    def __init__(self, heap: Heap, queue: Queue) -> None:
        self.queue = queue
        self.buffer = heap.make(SIZE, heap.staging)
        self._used, self._tick = 0, 0

    def upload(self, target: Buffer, offset: int, host: Array) -> None:
        """Copy a host array's bytes to a place in a buffer."""
        for begin in range(0, host.nbytes, SIZE):
            part = host[begin : begin + SIZE]
            at, mapped = self._room(part.nbytes)
            mapped[:] = part
            self._copy(self.buffer, at, target, offset + begin, part.nbytes)

    def download(self, source: Buffer, offset: int, host: Array) -> None:
        """Copy bytes of a buffer into a host array, and wait for them."""
        for begin in range(0, host.nbytes, SIZE):
            part = host[begin : begin + SIZE]
            at, mapped = self._room(part.nbytes)
            self._copy(source, offset + begin, self.buffer, at, part.nbytes)
            self.queue.wait()
            part[:] = mapped

    def _copy(self, source: Buffer, begin: int, target: Buffer, to: int, nbytes: int) -> None:
        recording = self.queue.recording()
        recording.copy(source, begin, target, to, nbytes)
        source.busy = target.busy = self._tick = self.queue.upcoming

    def _room(self, nbytes: int) -> tuple[int, Array]:
        if self._used + nbytes > SIZE:
            self.queue.wait()
        if self._tick <= self.queue.done:
            self._used = 0
        at = self._used
        self._used += -(-nbytes // 16) * 16
        assert self.buffer.mapped is not None
        return at, self.buffer.mapped[at : at + nbytes]
