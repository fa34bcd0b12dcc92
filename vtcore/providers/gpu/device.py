"""A device: a memory that also launches kernels. What is recorded can be enqueued again, as one object where the device has such."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from vtcore.errors import KernelBuildError
from vtcore.memory import Held, Memory
from vtcore.provider import Sink
from vtcore.providers.kernels.declare import Kernel
from vtcore.quant.blocks import BlockFormat
from vtcore.tensor import Tensor

DTYPES = {
    "float32": "f32", "int32": "i32", "uint32": "u32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "bool": "u8", "uint8": "u8", "int8": "i8",
}  # fmt: skip
Values = tuple[int | float, ...]  # of a kernel's parameters, in order
Bound = Any  # a launch with its arguments; only its device looks inside
FORKED = "was opened by the process that this one was forked from, and a driver's threads stay there; start processes by spawn instead"
COUNTED = 1 << 32  # elements: from so many on kernels can't count them


@dataclass(frozen=True)
class Limits:
    """What a device can hold and reach."""

    binding: int  # bytes of one buffer that a kernel may see
    memory: int  # bytes in all; 0 where the device doesn't say
    local: int  # bytes that the work items of a group share
    group: int  # work items of a group
    subgroups: int = 0  # work items of a subgroup; 0: it has none, or none that is used


class Device(Memory, ABC):
    """What each one adds: room and copies (as every Memory), `bind`, `enqueue`, and `seal` where it has something better than a loop."""

    limits: Limits

    def __init__(self) -> None:
        super().__init__()
        self.sink: Sink | None = None
        self.launched = 0
        self.constants: dict[str, Tensor] = {}  # tables that kernels read, by name
        self._variants: dict[tuple[int, tuple[str, ...]], Kernel] = {}

    def alloc(self, nbytes: int, zero: bool = False, scratch: bool = False) -> Held:
        """As every memory. KernelBuildError for a kernel's output that no kernel of this device can see as a whole."""
        if scratch and nbytes > self.limits.binding:
            raise KernelBuildError(f"a result has {nbytes:,} bytes; a kernel of this device sees at most {self.limits.binding:,}")
        return super().alloc(nbytes, zero, scratch)

    @abstractmethod
    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Bound:
        """A variant with its arguments: the buffers, the values of `kernel.parameters`, and how many groups of work items run.
        KernelBuildError, with the compiler's words, where the variant can't be built for this device.

        While `sink` is set, a launch's arguments must stay what they are, however often it is enqueued."""

    @abstractmethod
    def enqueue(self, bound: Bound) -> None:
        """Put a launch at the end of the queue."""

    def seal(self, launches: Sequence[Bound]) -> Callable[[], None]:
        """Recorded launches as one call that enqueues them all."""

        def replay() -> None:
            for bound in launches:
                self.enqueue(bound)

        return replay

    def close(self) -> None:
        """Give back what the device made."""

    def launch(self, kernel: Kernel, tensors: Sequence[Tensor], scalars: Sequence[int | float], groups: int) -> None:
        """Run a kernel over tensors that are true here, one for each of its buffers; the variant goes by their dtypes."""
        if groups <= 0:
            return
        chosen = self._variant(kernel, tensors)
        if scalars and min(scalars) < 0:  # of a view that goes backwards: indices of 32 bits wrap around
            scalars = [int(v) & 0xFFFFFFFF if p.dtype == "u32" else v for p, v in zip(kernel.scalars, scalars, strict=True)]
        values = (groups, *map(begin, tensors), *scalars)
        bound = self.bind(chosen, [t.storage.copies[self].buffer for t in tensors], values, groups)
        self.put(bound, tensors)

    def put(self, bound: Bound, tensors: Sequence[Tensor]) -> None:
        """Enqueue what is bound, and hand it over with the tensors that it reads and writes where launches are recorded."""
        self.enqueue(bound)
        self.launched += 1
        if self.sink is not None:
            self.sink(bound, [t.storage for t in tensors])

    def each(self, kernel: Kernel, tensors: Sequence[Tensor], scalars: Sequence[int | float], total: int) -> None:
        """As `launch`, with a work item for each of `total`, which the kernel takes as its first scalar: it must leave those beyond."""
        self.launch(kernel, tensors, (total, *scalars), -(-total // kernel.group))

    @contextmanager
    def record(self, sink: Sink) -> Iterator[None]:
        """Hand over every launch inside, in order, besides running it."""
        before, self.sink = self.sink, sink
        try:
            yield
        finally:
            self.sink = before

    def _variant(self, kernel: Kernel, tensors: Sequence[Tensor]) -> Kernel:
        dtypes = tuple(dtype_name(t) for t, b in zip(tensors, kernel.buffers, strict=True) if len(b.dtypes) > 1)
        key = id(kernel), dtypes
        if key not in self._variants:
            self._variants[key] = kernel.of(*dtypes)
        return self._variants[key]


def dtype_name(tensor: Tensor) -> str:
    """A tensor's dtype as kernels name it."""
    return "bytes" if isinstance(tensor.dtype, BlockFormat) else DTYPES.get(str(tensor.dtype), str(tensor.dtype))


def begin(tensor: Tensor) -> int:
    """Where a view begins: in elements, of quantised blocks in bytes."""
    d = tensor.dtype
    return tensor.offset // d.block * d.nbytes if isinstance(d, BlockFormat) else tensor.offset


def too_large(tensor: Tensor, limits: Limits) -> str | None:
    """Why no kernel of a device can see a tensor, or None."""
    nbytes = max(tensor.storage.nbytes, tensor.nbytes)  # of a weight's outline only the shape is known
    if nbytes > limits.binding:
        return f"its storage has {nbytes:,} bytes; a kernel of this device sees at most {limits.binding:,}"
    counts = prod(tensor.shape) < COUNTED and begin(tensor) < COUNTED
    return None if counts else "it has 2^32 elements or more, and kernels count in 32 bits"


def is_float32(tensor: Tensor) -> bool:
    """Whether the elements are what a kernel reads without converting."""
    return tensor.dtype == np.float32
