"""A second memory, as a device's is: bytes that only upload and download reach."""

from __future__ import annotations

import numpy as np

from vtcore.memory import Held, Memory
from vtcore.tensor import Tensor


class FarMemory(Memory):
    """Fresh buffers hold 255, not zeros, so that what nobody brought shows."""

    name = "far"

    def _make(self, size, zero):
        return np.full(size, 0 if zero else 255, np.uint8)

    def _zero(self, buffer, size):
        buffer[:] = 0

    def upload(self, held: Held, offset, host):
        held.buffer[offset : offset + host.nbytes] = host

    def download(self, held: Held, offset, host):
        host[:] = held.buffer[offset : offset + host.nbytes]


def far_view(t: Tensor, memory: FarMemory) -> np.ndarray:
    """What a kernel of that memory sees of a tensor."""
    n = t.dtype.itemsize
    return np.ndarray(t.shape, t.dtype, t.storage.copies[memory].buffer, t.offset * n, tuple(s * n for s in t.strides))
