"""A CUDA device: one stream, memory by cuMemAlloc, uploads through pinned memory, and recorded launches as a CUDA graph."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple, Protocol

from vtcore.errors import KernelBuildError, LibraryError, OutOfMemoryError, ProviderError
from vtcore.memory import Array, Held
from vtcore.providers.cuda.driver import Driver
from vtcore.providers.cuda.staging import Staging
from vtcore.providers.gpu.device import Device, Limits, Values
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import cuda as target

FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
WIDEST = 1 << 15  # groups along the first axis of a grid
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may allocate meanwhile
SHARED = 48 * 1024  # bytes that a group may share without asking

Compile = Callable[[str, str], bytes]  # a text for an architecture


class Enqueued(Protocol):
    """What can be put on the stream, again and again: a kernel's launch, or a product of a library's."""

    def enqueue(self, driver: Driver, stream: Any) -> None:
        """Put it at the end."""


class Launch(NamedTuple):
    """A kernel's function, its grid, and its arguments where the driver reads them."""

    function: Any
    grid: tuple[int, int]
    group: int
    arguments: Any  # an array of the addresses of each
    packed: Any  # what lies at those addresses

    def enqueue(self, driver: Driver, stream: Any) -> None:
        """As all that can be put on the stream."""
        x, y = self.grid
        driver("cuLaunchKernel", self.function, x, y, 1, self.group, 1, 1, 0, stream, ctypes.addressof(self.arguments), 0)


class CUDA(Device):
    """One device. `compile` makes machine code of a text: NVRTC.

    Its context may have other users in this process, with whom it would outlive this one: so each thing that was made in it is given
    back by itself, the last one first."""

    name = "cuda"

    def __init__(self, driver: Driver, number: int, architecture: str, compile: Compile) -> None:
        super().__init__()
        self.driver, self.architecture, self.compile = driver, architecture, compile
        self._buffers: set[int] = set()
        self._graphs: dict[int, Any] = {}
        device = driver("cuDeviceGet", number)
        with ExitStack() as made:  # what gives it back
            driver.use(device)
            made.callback(driver.release, device)
            self.stream = driver("cuStreamCreate", NON_BLOCKING)
            made.callback(driver, "cuStreamDestroy", self.stream)
            _, total = driver("cuMemGetInfo")
            self._staging = Staging(driver, self.stream, made)
            self.made_here = made.pop_all()
        self.limits = Limits(binding=total, memory=total, local=SHARED, group=1024, subgroups=target.WARP)
        self.capacity: int = total
        self._doomed: deque[int] = deque()  # buffers that nobody has any more
        self._functions: dict[str, tuple[Any, struct.Struct, tuple[int, ...]]] = {}
        self._failed: dict[str, str] = {}

    def _unmake(self, buffer: int) -> None:
        self._doomed.append(buffer)  # freeing waits for what is enqueued

    def _make(self, size: int, zero: bool) -> int:
        if self._doomed:
            self.synchronize()
        try:
            buffer = int(self.driver("cuMemAlloc", size))
        except OutOfMemoryError as full:
            free, total = self.driver("cuMemGetInfo")
            raise OutOfMemoryError(
                f"cuda: {size:,} bytes more don't fit: {self.made:,} are taken here, and {free:,} of the device's {total:,} are free"
            ) from full
        self._buffers.add(buffer)
        if zero:
            self._zero(buffer, size)
        return buffer

    def _zero(self, buffer: int, size: int) -> None:
        self.driver("cuMemsetD8Async", buffer, 0, size, self.stream)

    def upload(self, held: Held, offset: int, host: Array) -> None:
        self._staging.upload(held.buffer + offset, host)

    def download(self, held: Held, offset: int, host: Array) -> None:
        self._staging.download(held.buffer + offset, host)

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        self.driver("cuMemcpyDtoDAsync", held.buffer + target, held.buffer + source, nbytes, self.stream)

    def synchronize(self) -> None:
        self.driver("cuStreamSynchronize", self.stream)
        for _ in range(len(self._doomed)):
            self._free(self._doomed.popleft())

    def _free(self, buffer: int) -> None:
        self._buffers.discard(buffer)
        self.driver("cuMemFree", buffer)

    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Launch:
        """KernelBuildError, each time, with NVRTC's log where it refuses the kernel's text."""
        if kernel.name not in self._functions:
            self._functions[kernel.name] = self._load(kernel)
        function, layout, offsets = self._functions[kernel.name]
        packed = ctypes.create_string_buffer(layout.pack(*buffers, *values), layout.size)
        start = ctypes.addressof(packed)
        arguments = (ctypes.c_void_p * len(offsets))(*[start + o for o in offsets])
        wide = min(groups, WIDEST)
        return Launch(function, (wide, -(-groups // wide)), kernel.group, arguments, packed)

    def _load(self, kernel: Kernel) -> tuple[Any, struct.Struct, tuple[int, ...]]:
        if kernel.name in self._failed:
            raise KernelBuildError(self._failed[kernel.name])
        try:
            code = self.compile(target.source(kernel), self.architecture)
            module = self.driver("cuModuleLoadData", code)
            self.made_here.callback(self.driver, "cuModuleUnload", module)
            function = self.driver("cuModuleGetFunction", module, kernel.name.encode())
        except ProviderError as wrong:
            if self.driver.lost:
                raise
            self._failed[kernel.name] = f"cuda: kernel {kernel.name}: {wrong}"
            raise KernelBuildError(self._failed[kernel.name]) from wrong
        n = len(kernel.buffers)
        layout = struct.Struct("=" + "Q" * n + "".join(FORMATS[p.dtype] for p in kernel.parameters))
        return function, layout, (*range(0, 8 * n, 8), *range(8 * n, layout.size, 4))

    def enqueue(self, bound: Enqueued) -> None:
        bound.enqueue(self.driver, self.stream)

    def seal(self, launches: Sequence[Enqueued]) -> Callable[[], None]:
        """A CUDA graph of them: one call a replay. Where a library won't be captured, a call each."""
        self.driver("cuStreamBeginCapture", self.stream, self.driver.module.CUstreamCaptureMode(THREAD_LOCAL))
        try:
            for launch in launches:
                self.enqueue(launch)
        except BaseException as wrong:
            with suppress(ProviderError):  # the capture may be void by now; what was enqueued last is what tells
                self.driver("cuGraphDestroy", self.driver("cuStreamEndCapture", self.stream))
            if isinstance(wrong, LibraryError):
                return super().seal(launches)
            raise
        return Graph(self.driver, self.stream, self.driver("cuStreamEndCapture", self.stream), self._graphs)

    def close(self) -> None:
        """Give back all that was made, and the context; what is left in tensors is gone."""
        if self.driver.lost or self.driver.inherited:
            return
        with self.made_here:  # also where waiting fails, as far as it goes
            self.synchronize()
            while self._graphs:
                self.driver("cuGraphExecDestroy", self._graphs.popitem()[1])
            for buffer in list(self._buffers):
                self._free(buffer)

    def __del__(self) -> None:
        """Of a device that was only dropped: now."""
        if hasattr(self, "made_here") and not sys.is_finalizing():
            self.close()


class Graph:
    """Launches that the device holds as one. `held`: all that weren't given back yet."""

    def __init__(self, driver: Driver, stream: Any, graph: Any, held: dict[int, Any]) -> None:
        self.driver, self.stream, self.held = driver, stream, held
        try:
            self.executable = driver("cuGraphInstantiate", graph, 0)
            held[id(self)] = self.executable
        finally:
            driver("cuGraphDestroy", graph)

    def __call__(self) -> None:
        self.driver("cuGraphLaunch", self.executable, self.stream)

    def __del__(self) -> None:
        held = self.held.pop(id(self), None)
        if held is not None and not (self.driver.lost or self.driver.inherited):
            self.driver("cuGraphExecDestroy", held)
