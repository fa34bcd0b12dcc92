"""The Metal provider, by PyObjC: buffers that the processor sees too, and one command buffer a step.

It was written after Apple's and PyObjC's documentation, and never run on a Mac; `vtcore check metal` runs its kernels' text elsewhere."""

from __future__ import annotations

import importlib
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from vtcore.errors import KernelBuildError, OutOfMemoryError, ProviderError, ProviderUnavailableError
from vtcore.memory import Array, Held
from vtcore.providers import ProviderOptions
from vtcore.providers.gpu.device import Device, Limits, Values
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import metal as target

FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
WIDEST = 1 << 15  # groups along the first axis of a grid
SHARED_STORAGE = 0  # MTLResourceStorageModeShared
FAILED = 5  # MTLCommandBufferStatusError
SUBGROUP = 32  # work items, on Apple's own; kernels assume no size
INLINE = 4096  # bytes that setBytes takes
NEVER = "never run on a Mac; `vtcore check metal` runs its kernels' text on the processor"


class Launch(NamedTuple):
    """A pipeline with its buffers, the bytes of its parameters, and its grid."""

    pipeline: Any
    buffers: tuple[Any, ...]
    packed: bytes
    grid: tuple[int, int]
    group: int


class Metal(Device):
    """One device, one queue. What is encoded runs when somebody waits for it.

    What Metal hands out for a moment, such as a command buffer, goes with the pool of Objective-C's that is open: `pool` opens one, as a
    context. Nobody else does in a process of Python's, and it would stay for ever."""

    name = "metal"

    def __init__(self, module: Any, device: Any, pool: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__()
        self.module, self.device, self.pool = module, device, pool
        self.queue = device.newCommandQueue()
        self.limits = Limits(
            binding=device.maxBufferLength(),
            memory=device.recommendedMaxWorkingSetSize(),
            local=device.maxThreadgroupMemoryLength(),
            group=1024,
            subgroups=SUBGROUP,
        )
        self.capacity = self.limits.memory or None
        self._pipelines: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self._commands: Any = None
        self._encoder: Any = None

    def _make(self, size: int, zero: bool) -> Any:
        self._alive()
        buffer = self.device.newBufferWithLength_options_(size, SHARED_STORAGE)  # fresh ones are zero
        if buffer is None:
            raise OutOfMemoryError(f"metal: {size:,} bytes more don't fit: {self.made:,} of {self.limits.memory:,} bytes are taken")
        return buffer

    def _alive(self) -> None:
        if self.queue is None:
            raise ProviderError("metal: the device was closed, and what it held is gone: load the model again")

    def _bytes(self, buffer: Any) -> Array:
        return np.frombuffer(buffer.contents().as_buffer(buffer.length()), np.uint8)

    def _zero(self, buffer: Any, size: int) -> None:
        self.synchronize()
        self._bytes(buffer)[:size] = 0

    def upload(self, held: Held, offset: int, host: Array) -> None:
        self.synchronize()  # launches before this one may still read what is there
        self._bytes(held.buffer)[offset : offset + host.nbytes] = host.reshape(-1).view(np.uint8)

    def download(self, held: Held, offset: int, host: Array) -> None:
        self.synchronize()
        host.reshape(-1).view(np.uint8)[:] = self._bytes(held.buffer)[offset : offset + host.nbytes]

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        self.synchronize()
        seen = self._bytes(held.buffer)
        seen[target : target + nbytes] = seen[source : source + nbytes].copy()

    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Launch:
        """KernelBuildError, each time, with the compiler's words where it refuses the kernel's text."""
        self._alive()
        if kernel.name not in self._pipelines:
            self._pipelines[kernel.name] = self._compiled(kernel)
        packed = struct.pack("=" + "".join(FORMATS[p.dtype] for p in kernel.parameters), *values)
        assert len(packed) <= INLINE, f"{kernel.name} has {len(packed)} bytes of parameters; setBytes takes {INLINE}"
        wide = min(groups, WIDEST)
        return Launch(self._pipelines[kernel.name], tuple(buffers), packed, (wide, -(-groups // wide)), kernel.group)

    def _compiled(self, kernel: Kernel) -> Any:
        if kernel.name in self._failed:
            raise KernelBuildError(self._failed[kernel.name])
        with self.pool():
            made, wrong = self._made(kernel)
        if made is None:
            self._failed[kernel.name] = f"metal: kernel {kernel.name} {wrong}"
            raise KernelBuildError(self._failed[kernel.name])
        return made

    def _made(self, kernel: Kernel) -> tuple[Any, str]:
        """A pipeline, or None and why there is none."""
        options = self.module.MTLCompileOptions.alloc().init()
        options.setFastMathEnabled_(False)
        library, wrong = self.device.newLibraryWithSource_options_error_(target.source(kernel), options, None)
        if library is None:
            return None, f"doesn't compile: {wrong}"
        pipeline, wrong = self.device.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_(kernel.name), None)
        if pipeline is not None and (most := pipeline.maxTotalThreadsPerThreadgroup()) < kernel.group:
            return None, f"has groups of {kernel.group} work items, of which the device holds {most}"
        return pipeline, f"has no pipeline: {wrong}"

    def enqueue(self, bound: Launch) -> None:
        self._alive()
        with self.pool():
            self._encode(bound)

    def _encode(self, bound: Launch) -> None:
        if self._encoder is None:
            self._commands = self.queue.commandBuffer()
            self._encoder = self._commands.computeCommandEncoder()
        size, encoder = self.module.MTLSizeMake, self._encoder
        encoder.setComputePipelineState_(bound.pipeline)
        for i, buffer in enumerate(bound.buffers):
            encoder.setBuffer_offset_atIndex_(buffer, 0, i)
        encoder.setBytes_length_atIndex_(bound.packed, len(bound.packed), len(bound.buffers))
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(size(*bound.grid, 1), size(bound.group, 1, 1))

    def synchronize(self) -> None:
        """Hand over what was encoded, and wait for it. Raises ProviderError where the device failed."""
        self._alive()
        with self.pool():
            if (commands := self._ended()) is not None:
                commands.commit()
                commands.waitUntilCompleted()
                if commands.status() == FAILED:
                    raise ProviderError(f"metal: the device failed: {commands.error()}")

    def _ended(self) -> Any:
        """The command buffer that was being encoded, with nothing more to come; None where there is none."""
        commands, encoder, self._commands, self._encoder = self._commands, self._encoder, None, None
        if encoder is not None:
            encoder.endEncoding()
        return commands

    def close(self) -> None:
        """Give back the queue and the pipelines; what was encoded and not waited for never runs. Buffers go with whoever has them."""
        with self.pool():
            self._ended()  # an encoder may not go before
            self._pipelines.clear()
            self.queue = None

    def __del__(self) -> None:
        if hasattr(self, "_encoder") and not sys.is_finalizing():
            self.close()


def make(options: ProviderOptions) -> Accelerator:
    """A provider over the system's default device. Raises ProviderUnavailableError where there is none."""
    if sys.platform != "darwin":
        raise ProviderUnavailableError(f"metal: it needs macOS, and this is {sys.platform} ({NEVER})")
    try:
        module, bridge = importlib.import_module("Metal"), importlib.import_module("objc")
    except ImportError as missing:
        raise ProviderUnavailableError(f"metal: PyObjC isn't installed ({missing}): pip install 'vtcore[metal]'") from missing
    device = module.MTLCreateSystemDefaultDevice()
    if device is None:
        raise ProviderUnavailableError("metal: the system shows no device")
    return Accelerator("metal", Metal(module, device, bridge.autorelease_pool), {"device": str(device.name()), "note": NEVER})
