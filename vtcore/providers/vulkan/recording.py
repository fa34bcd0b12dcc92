"""Commands recorded one after the other, with a barrier where one needs what another has written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vtcore.providers.vulkan.api import Handle, ffi, lib, vk

COMPUTE = vk.VK_PIPELINE_BIND_POINT_COMPUTE
STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
STAGES = vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | vk.VK_PIPELINE_STAGE_TRANSFER_BIT
WRITES = vk.VK_ACCESS_SHADER_WRITE_BIT | vk.VK_ACCESS_TRANSFER_WRITE_BIT
READS = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_TRANSFER_READ_BIT
ONCE = vk.VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
MANY = vk.VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT  # a step may be submitted again before it has ended


def _barrier(to: int) -> Any:
    made = ffi.new("VkMemoryBarrier*")
    made.sType, made.srcAccessMask, made.dstAccessMask = vk.VK_STRUCTURE_TYPE_MEMORY_BARRIER, WRITES, to
    return made


BETWEEN = _barrier(READS | WRITES)
LAST = _barrier(READS | WRITES | vk.VK_ACCESS_HOST_READ_BIT)


@dataclass(eq=False, slots=True)
class Bound:
    """A launch with its arguments."""

    pipeline: Handle
    layout: Handle
    sets: Any  # one descriptor set, as an array
    pushed: bytes
    grid: tuple[int, int]
    reads: tuple[int, ...]  # numbers of buffers
    writes: tuple[int, ...]
    buffers: tuple[Any, ...]
    kept: tuple[Any, ...]  # what must live as long as this does


class Recording:
    """A command buffer that is being filled. Buffers are told apart by numbers."""

    def __init__(self, command: Handle, once: bool) -> None:
        self.command, self.commands = command, 0
        self._read: set[int] = set()  # since the last barrier
        self._written: set[int] = set()
        begin = ffi.new("VkCommandBufferBeginInfo*")
        begin.sType, begin.flags = vk.VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO, ONCE if once else MANY
        lib.vkBeginCommandBuffer(command, begin)

    def launch(self, bound: Bound) -> None:
        """Dispatch a kernel."""
        self._order(bound.reads, bound.writes)
        command, layout, pushed = self.command, bound.layout, bound.pushed
        lib.vkCmdBindPipeline(command, COMPUTE, bound.pipeline)
        lib.vkCmdBindDescriptorSets(command, COMPUTE, layout, 0, 1, bound.sets, 0, ffi.NULL)
        if pushed:
            lib.vkCmdPushConstants(command, layout, STAGE, 0, len(pushed), ffi.from_buffer(pushed))
        lib.vkCmdDispatch(command, *bound.grid, 1)

    def fill(self, buffer: Any, size: int) -> None:
        """Zeros."""
        self._order((), (buffer.number,))
        lib.vkCmdFillBuffer(self.command, buffer.handle, buffer.begin, size, 0)

    def update(self, buffer: Any, offset: int, data: Any) -> None:
        """Bytes that travel with the commands: at most 65,536, offset and size multiples of 4."""
        self._order((), (buffer.number,))
        lib.vkCmdUpdateBuffer(self.command, buffer.handle, buffer.begin + offset, data.nbytes, ffi.from_buffer(data))

    def copy(self, source: Any, begin: int, target: Any, to: int, size: int) -> None:
        """Bytes from one buffer to another, or within one."""
        self._order((source.number,), (target.number,))
        part = ffi.new("VkBufferCopy*", (source.begin + begin, target.begin + to, size))
        lib.vkCmdCopyBuffer(self.command, source.handle, target.handle, 1, part)

    def end(self) -> None:
        """What comes next, here or on the host, sees all of it."""
        last = STAGES | vk.VK_PIPELINE_STAGE_HOST_BIT
        lib.vkCmdPipelineBarrier(self.command, STAGES, last, 0, 1, LAST, 0, ffi.NULL, 0, ffi.NULL)
        lib.vkEndCommandBuffer(self.command)

    def _order(self, reads: Iterable[int], writes: Iterable[int]) -> None:
        """A barrier, if this reads what was written or writes what was read or written since the last one."""
        if not (self._written.isdisjoint(reads) and self._written.isdisjoint(writes) and self._read.isdisjoint(writes)):
            lib.vkCmdPipelineBarrier(self.command, STAGES, STAGES, 0, 1, BETWEEN, 0, ffi.NULL, 0, ffi.NULL)
            self._read.clear()
            self._written.clear()
        self._read.update(reads)
        self._written.update(writes)
        self.commands += 1
