"""The Vulkan device: a memory, a queue and pipelines."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any
from weakref import finalize

import numpy as np

from vtcore.memory import UNSEEN, Array, Held, references
from vtcore.providers.gpu.device import Device, Values
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.vulkan.api import Handle, told, vk
from vtcore.providers.vulkan.heap import SMALL, Buffer, Heap, Lease
from vtcore.providers.vulkan.imports import Imports, possible
from vtcore.providers.vulkan.physical import HOST_PAGES, Physical
from vtcore.providers.vulkan.pipelines import Pipelines
from vtcore.providers.vulkan.queue import Queue
from vtcore.providers.vulkan.recording import Bound, Recording
from vtcore.providers.vulkan.sets import Sets
from vtcore.providers.vulkan.staging import Staging

WIDEST = 1 << 15  # groups along the first axis of a grid
UPDATE = 1 << 16  # bytes that may travel with the commands


class Vulkan(Device):
    """One device, one in-order queue. Bytes go straight to memory that the host sees, to other memory through a staging buffer."""

    name = "vulkan"

    def __init__(self, instance: Handle, physical: Physical, staged: bool) -> None:
        super().__init__()
        self.instance, self.physical = instance, physical
        wanted = not staged and possible(physical)
        self.handle, family = _opened(physical, [HOST_PAGES] if wanted else [])
        self.queue = Queue(self.handle, family, physical.name)
        imports = Imports.of(self.handle, physical) if wanted else None
        self.heap, self.shares = Heap(self.handle, physical, not staged, imports), imports is not None
        self.limits = physical.limits
        self.capacity = physical.limits.memory or None
        self.sets = Sets(self.handle, self.queue, physical.limits.binding)
        self.pipelines = Pipelines(self.handle, physical.name, physical.limits, physical.bindings, self.sets)
        self.queue.after.append(self._sweep)
        self._doomed: deque[tuple[int, Buffer]] = deque()  # since which tick nobody has which buffer

    def _make(self, size: int, zero: bool) -> Lease:
        self.queue.alive()
        buffer = self.heap.make(size)
        if zero and not (self.shares and size >= SMALL):  # fresh pages of the host's are zeros; a small buffer's were perhaps another's
            self._fill(buffer, size)
        return self.heap.lease(buffer)

    def place(self, held: Held) -> Any:
        return held.buffer.buffer

    def view(self, held: Held) -> Array | None:
        buffer: Buffer = held.buffer.buffer
        return buffer.mapped if self.shares else None

    def adopt(self, host: Array) -> Held | None:
        self.queue.alive()
        buffer = self.heap.adopt(host)
        return None if buffer is None else Held(self.heap.lease(buffer), 0, None)

    def release(self, held: Held) -> None:
        """Into the pool; not what was adopted, nor what somebody still looks at: that goes when the queue is done with it."""
        buffer: Buffer = held.buffer.buffer
        if buffer.adopted or (self.shares and buffer.mapped is not None and references(buffer.mapped) > UNSEEN):
            self.lose(held)
            return
        super().release(held._replace(buffer=self.heap.lease(held.buffer.buffer)))

    def trim(self) -> None:
        super().trim()
        self._sweep()

    def _sweep(self) -> None:
        """Give back the objects of dropped buffers that no command uses any more. Ctrl-C waits meanwhile: all leases are counted."""
        doomed, last = self._doomed, self.queue.upcoming
        with self.queue.whole:
            while doomed and doomed[0][0] <= self.queue.done:
                buffer = doomed.popleft()[1]
                if not buffer.leases:
                    self.heap.free(buffer)
            doomed.extend((last, buffer) for buffer in self.heap.dropped())

    def _zero(self, buffer: Lease, size: int) -> None:
        self._fill(buffer.buffer, size)

    def _fill(self, buffer: Buffer, size: int) -> None:
        self._recording(buffer).fill(buffer, size)

    def _recording(self, *buffers: Buffer) -> Recording:
        """The open batch, which will use these buffers."""
        recording = self.queue.recording()
        for buffer in buffers:
            buffer.busy = self.queue.upcoming
        return recording

    def _free(self, buffer: Buffer) -> bool:
        """Whether no command that was recorded uses a buffer, so that the host may write there."""
        last = max(buffer.busy, self.queue.sealed) if buffer.sealed else buffer.busy
        return last <= self.queue.done or self.queue.ended(last)

    def upload(self, held: Held, offset: int, host: Array) -> None:
        self.queue.alive()
        buffer: Buffer = held.buffer.buffer
        mapped = buffer.mapped
        if mapped is not None and self._free(buffer):
            mapped[offset : offset + host.nbytes] = host
        elif 0 < host.nbytes <= UPDATE and not (host.nbytes | offset) & 3 and host.flags.c_contiguous:
            self._recording(buffer).update(buffer, offset, host)
        elif mapped is not None:
            self.queue.wait()
            mapped[offset : offset + host.nbytes] = host
        else:
            self._staging.upload(buffer, offset, host)

    def download(self, held: Held, offset: int, host: Array) -> None:
        buffer: Buffer = held.buffer.buffer
        if buffer.mapped is None:
            self._staging.download(buffer, offset, host)
        else:
            self.queue.wait()
            host[:] = buffer.mapped[offset : offset + host.nbytes]

    def copy(self, held: Held, source: int, target: int, nbytes: int) -> None:
        if nbytes:
            buffer: Buffer = held.buffer.buffer
            self._recording(buffer).copy(buffer, source, buffer, target, nbytes)

    @cached_property
    def _staging(self) -> Staging:
        return Staging(self.heap, self.queue)

    def synchronize(self) -> None:
        self.queue.wait()

    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Bound:
        self.queue.alive()
        pipe = self.pipelines.pipe(kernel)
        packed = pipe.packed(values)
        shown: tuple[Buffer, ...] = tuple(lease.buffer for lease in buffers)
        kept: tuple[Any, ...] = tuple(buffers)
        if not pipe.pushes:
            parameters = Parameters(self, packed)
            packed, shown, kept = b"", (*shown, parameters.held.buffer.buffer), (*kept, parameters)
        numbers, sets, wide = [b.number for b in shown], self.sets.showing(shown), min(groups, WIDEST)
        return Bound(
            pipe.handle,
            pipe.layout,
            sets.sets,
            packed,
            (wide, -(-groups // wide)),
            (*(numbers[i] for i in pipe.reads), *numbers[len(buffers) :]),
            tuple(numbers[i] for i in pipe.writes),
            shown,
            (*kept, sets),
        )

    def enqueue(self, bound: Bound) -> None:
        self._recording(*bound.buffers).launch(bound)

    def seal(self, launches: Sequence[Bound]) -> Callable[[], None]:
        return Sealed(self.queue, launches).replay

    def close(self) -> None:
        """Give back the device and all that it holds; what is left in tensors is gone."""
        if self.handle is None or self.queue.inherited:
            return
        self.queue.close()
        self.pipelines.close()
        self.sets.close()
        self.heap.close()
        vk.vkDestroyDevice(self.handle, None)
        vk.vkDestroyInstance(self.instance, None)
        self.handle = None

    def __del__(self) -> None:
        """A driver's threads and memory stay until somebody gives them back: of a device that was only dropped, now."""
        if hasattr(self, "pipelines") and not sys.is_finalizing():
            self.close()


class Parameters:
    """A launch's parameters in a buffer of their own, as long as the launch may run."""

    def __init__(self, device: Vulkan, packed: bytes) -> None:
        self.held = device.alloc(len(packed))
        finalize(self, device.release, self.held).atexit = False
        device.upload(self.held, 0, np.frombuffer(packed, np.uint8))


class Sealed:
    """A recorded step: one command buffer, submitted at each replay."""

    def __init__(self, queue: Queue, launches: Sequence[Bound]) -> None:
        self.queue, self.launches, self.command = queue, tuple(launches), queue.command()
        recording = Recording(self.command, once=False)
        for bound in self.launches:
            recording.launch(bound)
            for buffer in bound.buffers:
                buffer.sealed = True
        recording.end()
        finalize(self, queue.retire, self.command).atexit = False

    def replay(self) -> None:
        """Submit it, after what was recorded before."""
        self.queue.flush(self.command)


def _opened(physical: Physical, extensions: list[str]) -> tuple[Handle, int]:
    """A logical device, and the family of its queue."""
    families = vk.vkGetPhysicalDeviceQueueFamilyProperties(physical.handle)
    family = next(i for i, q in enumerate(families) if q.queueFlags & vk.VK_QUEUE_COMPUTE_BIT)
    queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=family, queueCount=1, pQueuePriorities=[1.0])
    features = vk.VkPhysicalDeviceVulkan12Features(timelineSemaphore=1)
    wanted = vk.VkDeviceCreateInfo(pNext=features, queueCreateInfoCount=1, pQueueCreateInfos=[queue], ppEnabledExtensionNames=extensions)
    with told(f"opening {physical.name}"):
        return vk.vkCreateDevice(physical.handle, wanted, None), family
