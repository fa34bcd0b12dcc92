"""Heap on a device: buffers in slabs of memory. Of a buffer that is dropped, Vulkan's objects go once nothing uses them any more."""

from __future__ import annotations

from collections import defaultdict, deque
from itertools import count

import numpy as np

from vtcore.errors import OutOfMemoryError, ProviderError
from vtcore.memory import UNSEEN, Array, references
from vtcore.providers.vulkan.api import OUT_OF_MEMORY, Handle, ffi, lib, told, vk
from vtcore.providers.vulkan.imports import KIND, MAPPED, Imports, own
from vtcore.providers.vulkan.physical import Physical

LOCAL = vk.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
CACHED = vk.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
USAGE = vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | vk.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | vk.VK_BUFFER_USAGE_TRANSFER_DST_BIT
SMALL = 1 << 20  # bytes from which a buffer has memory of its own: drivers allow a few thousand pieces of it
SLAB = 4 << 20


class Slab:
    """A piece of device memory; `mapped` are its bytes, where the host sees them.

    What was given back is given out again to a buffer of the same size (there are few sizes), unless the host still looks at it."""

    def __init__(self, memory: Handle, size: int, mapped: Array | None) -> None:
        self.memory, self.size, self.mapped, self.used, self.users = memory, size, mapped, 0, 0
        self._holes: defaultdict[int, deque[tuple[int, Array | None]]] = defaultdict(deque)  # where they begin, and the bytes, by size

    def take(self, size: int, alignment: int) -> int | None:
        """Where so many bytes begin that nobody has; None: there are none."""
        if (begin := self._hole(self._holes[size])) is None:
            begin = -(-self.used // alignment) * alignment
        if begin + size > self.size:
            return None
        self.used, self.users = max(self.used, begin + size), self.users + 1
        return begin

    @staticmethod
    def _hole(holes: deque[tuple[int, Array | None]]) -> int | None:
        if holes and (holes[0][1] is None or references(holes[0][1]) <= UNSEEN):
            return holes.popleft()[0]
        holes.rotate(-1)
        return None

    def give(self, begin: int, size: int, mapped: Array | None) -> None:
        """No buffer has these any more."""
        self._holes[size].append((begin, mapped))
        self.users -= 1


class Buffer:
    """A Vulkan buffer over a part of a slab."""

    __slots__ = ("adopted", "begin", "busy", "handle", "leases", "mapped", "number", "place", "sealed", "size", "slab")

    def __init__(self, number: int, handle: Handle, size: int, slab: Slab, mapped: Array | None, begin: int = 0) -> None:
        self.number, self.handle, self.size, self.slab, self.mapped = number, handle, size, slab, mapped
        self.begin = begin  # where its bytes begin in what Vulkan calls a buffer
        self.adopted = False  # they are a host array's
        self.busy = self.leases = 0  # busy: the tick at whose end the last command that uses it is done
        self.sealed = False  # a recorded step uses it
        self.place = (0, 0)  # where its bytes begin in the slab, and how many they are there


class Lease:
    """What tensors and launches hold of a buffer, which goes with the last one.

    A buffer that goes back to a pool gets a new one: the collector calls the __del__ of all that dies together, so that of the old one
    may have been called already when that of a storage puts the buffer back."""

    __slots__ = ("_changes", "buffer")

    def __init__(self, buffer: Buffer, changes: deque[tuple[Buffer, int]]) -> None:
        self.buffer, self._changes = buffer, changes
        changes.append((buffer, 1))

    def __del__(self) -> None:
        self._changes.append((self.buffer, -1))  # by whatever thread: objects are given back elsewhere


class Heap:
    """Makes buffers of one type of memory, and gives back those that were dropped. With `imports` they are the host's own bytes."""

    def __init__(self, device: Handle, physical: Physical, mapped: bool, imports: Imports | None = None) -> None:
        self.device, self.name, self.imports = device, physical.name, imports
        self.offsets, self.most = physical.offsets, physical.allocations // 2
        self.kinds = vk.vkGetPhysicalDeviceMemoryProperties(physical.handle)
        self.changes: deque[tuple[Buffer, int]] = deque()  # of the number of a buffer's leases
        self.taken = 0
        self._numbers = count(1)
        self._alive: dict[int, Buffer] = {}
        self._slabs: set[Slab] = set()
        self._shared: defaultdict[int, list[Slab]] = defaultdict(list)  # by kind, those of small buffers
        self._allowed = self._types()
        self.kind = self._kind((MAPPED | LOCAL | CACHED, MAPPED | CACHED, MAPPED | LOCAL, MAPPED) if mapped else (LOCAL, 0))
        self.staging = self.kind if mapped else self._kind((MAPPED | CACHED, MAPPED))

    @property
    def size(self) -> int:
        """Bytes of the heap that buffers come from."""
        return int(self.kinds.memoryHeaps[self.kinds.memoryTypes[self.kind].heapIndex].size)

    def _types(self) -> int:
        with told("asking for memory"):
            probe = self._buffer(256)
            bits = vk.vkGetBufferMemoryRequirements(self.device, probe).memoryTypeBits
            vk.vkDestroyBuffer(self.device, probe, None)
        return int(bits) & (self.imports.types if self.imports else -1)

    def _kind(self, wishes: tuple[int, ...]) -> int:
        for wish in wishes:
            for i in range(self.kinds.memoryTypeCount):
                if self._allowed >> i & 1 and self.kinds.memoryTypes[i].propertyFlags & wish == wish:
                    return i
        raise ProviderError(f"vulkan: {self.name} has no memory that a kernel's buffers may have")

    def make(self, size: int, kind: int | None = None) -> Buffer:
        """A buffer of so many bytes. OutOfMemoryError where they don't fit."""
        kind = self.kind if kind is None else kind
        try:
            handle = self._buffer(size)
            try:
                slab, begin, taken = self._place(handle, kind)
            except BaseException:
                vk.vkDestroyBuffer(self.device, handle, None)
                raise
            vk.vkBindBufferMemory(self.device, handle, slab.memory, begin)
        except (*OUT_OF_MEMORY, MemoryError) as error:
            raise OutOfMemoryError(
                f"vulkan: {size:,} bytes more don't fit: {self.taken:,} of {self.size:,} bytes are taken on {self.name} "
                f"({type(error).__name__})"
            ) from error
        made = Buffer(next(self._numbers), handle, size, slab, None if slab.mapped is None else own(slab.mapped, begin, size))
        made.place = begin, taken
        return self._known(made)

    def adopt(self, host: Array) -> Buffer | None:
        """A buffer that is a host array's own bytes, with the rest of their pages; None where the driver doesn't take them."""
        if not self.imports or not host.nbytes or len(self._slabs) >= self.most:
            return None
        begin = host.ctypes.data % self.imports.alignment
        size = self.imports.whole(begin + host.nbytes)
        return None if begin % self.offsets else self._adopted(self.imports, host, begin, size)

    def _adopted(self, imports: Imports, host: Array, begin: int, size: int) -> Buffer | None:
        handle = self._buffer(size)
        try:
            fits = vk.vkGetBufferMemoryRequirements(self.device, handle).size <= size
            memory = imports.memory(host.ctypes.data - begin, size, self.kind) if fits else None
        except (vk.VkError, vk.VkException):
            memory = None
        if memory is None:
            vk.vkDestroyBuffer(self.device, handle, None)
            return None
        vk.vkBindBufferMemory(self.device, handle, memory, 0)
        slab = Slab(memory, 0, host)
        slab.users = 1
        self._slabs.add(slab)
        buffer = Buffer(next(self._numbers), handle, host.nbytes, slab, host, begin)
        buffer.adopted = True
        return self._known(buffer)

    def _known(self, buffer: Buffer) -> Buffer:
        self._alive[buffer.number] = buffer
        return buffer

    def lease(self, buffer: Buffer) -> Lease:
        """One more."""
        return Lease(buffer, self.changes)

    def dropped(self) -> list[Buffer]:
        """Buffers whose last lease has ended since this was asked before."""
        changed = []
        while self.changes:
            buffer, by = self.changes.popleft()
            buffer.leases += by
            changed.append(buffer)
        return [b for b in dict.fromkeys(changed) if not b.leases]

    def _buffer(self, size: int) -> Handle:
        host = vk.VkExternalMemoryBufferCreateInfo(handleTypes=KIND) if self.imports else None
        return vk.vkCreateBuffer(self.device, vk.VkBufferCreateInfo(pNext=host, size=size, usage=USAGE), None)

    def _place(self, handle: Handle, kind: int) -> tuple[Slab, int, int]:
        """A slab, where in it the buffer's bytes begin, and how many they are."""
        needs = vk.vkGetBufferMemoryRequirements(self.device, handle)
        size, shared = int(needs.size), self._shared[kind] if needs.size < SMALL else []
        for slab in shared:
            if (begin := slab.take(size, needs.alignment)) is not None:
                return slab, begin, size
        slab = self._slab(SLAB if size < SMALL else size, kind)
        shared.append(slab)
        slab.take(size, needs.alignment)
        return slab, 0, size

    def _slab(self, size: int, kind: int) -> Slab:
        slab = Slab(*(self._apart(size, kind) if self.imports is None else self._imported(self.imports, size, kind)))
        self._slabs.add(slab)
        self.taken += slab.size
        return slab

    def _apart(self, size: int, kind: int) -> tuple[Handle, int, Array | None]:
        memory = vk.vkAllocateMemory(self.device, vk.VkMemoryAllocateInfo(allocationSize=size, memoryTypeIndex=kind), None)
        seen = self.kinds.memoryTypes[kind].propertyFlags & MAPPED == MAPPED
        return memory, size, np.frombuffer(vk.vkMapMemory(self.device, memory, 0, size, 0), np.uint8) if seen else None

    @staticmethod
    def _imported(imports: Imports, size: int, kind: int) -> tuple[Handle, int, Array]:
        host = imports.fresh(size)
        return imports.memory(host.ctypes.data, host.nbytes, kind), host.nbytes, host

    def free(self, buffer: Buffer) -> None:
        """Give back a buffer that nothing uses, and its slab with the last one in it."""
        if self._alive.pop(buffer.number, None) is None:  # the device was closed
            return
        lib.vkDestroyBuffer(self.device, buffer.handle, ffi.NULL)
        buffer.slab.give(*buffer.place, buffer.mapped)
        if not buffer.slab.users:
            self._give(buffer.slab)

    def _give(self, slab: Slab) -> None:
        lib.vkFreeMemory(self.device, slab.memory, ffi.NULL)
        for shared in self._shared.values():
            if slab in shared:
                shared.remove(slab)
        self._slabs.discard(slab)
        self.taken -= slab.size

    def close(self) -> None:
        """Give back everything."""
        for buffer in self._alive.values():
            lib.vkDestroyBuffer(self.device, buffer.handle, ffi.NULL)
        for slab in list(self._slabs):
            self._give(slab)
        self._alive.clear()
