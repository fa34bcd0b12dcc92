"""Descriptor sets, which show kernels their buffers: one for each combination that a launch holds, and for those that were used last."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Sequence
from typing import Any

from vtcore.providers.vulkan.api import Handle, ffi, lib, told, vk
from vtcore.providers.vulkan.heap import Buffer
from vtcore.providers.vulkan.queue import Queue

STORAGE = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
WORD = 4  # bytes: kernels read by words
SETS, DESCRIPTORS = 256, 2048  # of a pool
MOST = 4096  # combinations that are kept for the next launch: steps of ever new shapes use ever new ones
Ended = deque[tuple[int, Any]]  # sets that nobody holds, and the tick at whose end no command uses them either


class Shown:
    """A descriptor set, as an array of one. Once nobody holds it, and what was recorded until then is done, it may show other buffers."""

    __slots__ = ("_ended", "_queue", "sets")

    def __init__(self, sets: Any, queue: Queue, ended: Ended) -> None:
        self.sets, self._queue, self._ended = sets, queue, ended

    def __del__(self) -> None:
        self._ended.append((self._queue.upcoming, self.sets))


class Sets:
    """All of one device. A layout of so many buffers serves every kernel that sees as many."""

    def __init__(self, device: Handle, queue: Queue, binding: int) -> None:
        self.device, self.queue, self.binding = device, queue, binding
        self._layouts: dict[int, Handle] = {}
        self._latest: OrderedDict[tuple[int, ...], Shown] = OrderedDict()  # by the numbers of buffers, which no two ever have
        self._ended: defaultdict[int, Ended] = defaultdict(deque)  # by how many buffers they show
        self._pools: list[Handle] = []
        self._left = (0, 0)  # sets and descriptors that the last pool still has

    def layout(self, count: int) -> Handle:
        """That of so many buffers."""
        if count not in self._layouts:
            one = {"descriptorType": STORAGE, "descriptorCount": 1, "stageFlags": STAGE}
            binds = [vk.VkDescriptorSetLayoutBinding(binding=i, **one) for i in range(count)]
            wanted = vk.VkDescriptorSetLayoutCreateInfo(bindingCount=count, pBindings=binds)
            self._layouts[count] = vk.vkCreateDescriptorSetLayout(self.device, wanted, None)
        return self._layouts[count]

    def showing(self, buffers: Sequence[Buffer]) -> Shown:
        """One that shows these buffers."""
        key = tuple(b.number for b in buffers)
        found = self._latest.get(key)
        if found is None:
            found = Shown(self._free(len(key)), self.queue, self._ended[len(key)])
            self._write(found.sets[0], buffers)
            self._latest[key] = found  # last: an interrupt leaves none that shows something else
            if len(self._latest) > MOST:
                self._latest.popitem(last=False)
        else:
            self._latest.move_to_end(key)
        return found

    def _free(self, count: int) -> Any:
        ended = self._ended[count]
        return ended.popleft()[1] if ended and self.queue.ended(ended[0][0]) else self._fresh(count)

    def _fresh(self, count: int) -> Any:
        if self._left[0] < 1 or self._left[1] < count:
            self._pool()
        self._left = self._left[0] - 1, self._left[1] - count
        wanted = vk.VkDescriptorSetAllocateInfo(descriptorPool=self._pools[-1], descriptorSetCount=1, pSetLayouts=[self.layout(count)])
        with told("making a descriptor set"):
            return vk.vkAllocateDescriptorSets(self.device, wanted)

    def _pool(self) -> None:
        size = vk.VkDescriptorPoolSize(type=STORAGE, descriptorCount=DESCRIPTORS)
        info = vk.VkDescriptorPoolCreateInfo(maxSets=SETS, poolSizeCount=1, pPoolSizes=[size])
        with told("making a pool of descriptor sets"):
            self._pools.append(vk.vkCreateDescriptorPool(self.device, info, None))
        self._left = SETS, DESCRIPTORS

    def _write(self, descriptor_set: Handle, buffers: Sequence[Buffer]) -> None:
        shown = ffi.new("VkDescriptorBufferInfo[]", len(buffers))
        writes = ffi.new("VkWriteDescriptorSet[]", len(buffers))
        for i, (b, info, write) in enumerate(zip(buffers, shown, writes, strict=True)):
            info.buffer, info.offset = b.handle, b.begin
            info.range = min(-(-b.size // WORD) * WORD, self.binding)
            write.sType, write.dstSet, write.dstBinding = vk.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, descriptor_set, i
            write.descriptorCount, write.descriptorType, write.pBufferInfo = 1, STORAGE, shown + i
        lib.vkUpdateDescriptorSets(self.device, len(buffers), writes, 0, ffi.NULL)

    def close(self) -> None:
        """Give back everything."""
        for pool in self._pools:
            lib.vkDestroyDescriptorPool(self.device, pool, ffi.NULL)
        for layout in self._layouts.values():
            lib.vkDestroyDescriptorSetLayout(self.device, layout, ffi.NULL)
        self._latest.clear()
