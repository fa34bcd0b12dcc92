"""Kernels as pipelines, and the descriptor sets that show them buffers: one for each combination of buffers that is in use."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

from vtcore.errors import KernelBuildError
from vtcore.providers.gpu.device import Limits, Values
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import glsl
from vtcore.providers.kernels.targets.common import reduces
from vtcore.providers.vulkan import spirv
from vtcore.providers.vulkan.api import Handle, ffi, lib, told, vk
from vtcore.signature import evaluate

FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
STORAGE = vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER
STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT
WORD = 4  # bytes: kernels read by words
SETS, DESCRIPTORS = 256, 2048  # of a pool
Key = tuple[int, ...]


class Pipe:
    """A kernel variant, compiled. `free` are descriptor sets whose buffers are gone."""

    def __init__(self, number: int, kernel: Kernel, handle: Handle, layout: Handle, set_layout: Handle) -> None:
        self.number, self.handle, self.layout, self.set_layout = number, handle, layout, set_layout
        self.pushes = glsl.pushes(kernel)
        self.bindings = len(kernel.buffers) + (not self.pushes)
        self.reads = tuple(i for i, b in enumerate(kernel.buffers) if not b.written)
        self.writes = tuple(i for i, b in enumerate(kernel.buffers) if b.written)
        self.pack = struct.Struct("<" + "".join(FORMATS[s.dtype] for s in kernel.parameters)).pack
        self.free: list[Any] = []

    def packed(self, values: Values) -> bytes:
        """A launch's parameters as the kernel reads them."""
        return self.pack(*values)


class Pipelines:
    """All of one device."""

    def __init__(self, device: Handle, name: str, limits: Limits, bindings: int) -> None:
        self.device, self.name, self.limits, self.bindings = device, name, limits, bindings
        self._pipes: dict[str, Pipe] = {}
        self._failed: dict[str, str] = {}
        self._sets: dict[Key, tuple[Pipe, Any]] = {}
        self._pools: list[Handle] = []
        self._left = (0, 0)  # sets and descriptors that the last pool still has

    def pipe(self, kernel: Kernel) -> Pipe:
        """A variant, compiled the first time. KernelBuildError, each time, where it can't be."""
        if kernel.name in self._failed:
            raise KernelBuildError(self._failed[kernel.name])
        if kernel.name not in self._pipes:
            try:
                self._pipes[kernel.name] = self._made(kernel)
            except KernelBuildError as wrong:
                self._failed[kernel.name] = str(wrong)
                raise
        return self._pipes[kernel.name]

    def _made(self, kernel: Kernel) -> Pipe:
        if reason := self._too_much(kernel):
            raise KernelBuildError(f"kernel {kernel.name} on {self.name}: {reason}")
        code = spirv.of(kernel, self.limits.subgroups > 0)
        try:
            return Pipe(len(self._pipes), kernel, *self._compiled(kernel, code))
        except (vk.VkError, vk.VkException) as error:
            raise KernelBuildError(f"kernel {kernel.name}: the driver of {self.name} can't build it: {type(error).__name__}") from error

    def _too_much(self, kernel: Kernel) -> str | None:
        """What of the kernel the device has not."""
        bindings = len(kernel.buffers) + (not glsl.pushes(kernel))
        if bindings > self.bindings:
            return f"it sees {bindings} buffers; the device shows a kernel {self.bindings}"
        if kernel.group > self.limits.group:
            return f"its groups have {kernel.group} work items; the device takes {self.limits.group}"
        shares = shared_bytes(kernel)
        return f"its groups share {shares:,} bytes; the device has {self.limits.local:,}" if shares > self.limits.local else None

    def _compiled(self, kernel: Kernel, code: bytes) -> tuple[Handle, Handle, Handle]:
        count = len(kernel.buffers) + (not glsl.pushes(kernel))
        binds = [
            vk.VkDescriptorSetLayoutBinding(binding=i, descriptorType=STORAGE, descriptorCount=1, stageFlags=STAGE) for i in range(count)
        ]
        shown = vk.vkCreateDescriptorSetLayout(self.device, vk.VkDescriptorSetLayoutCreateInfo(bindingCount=count, pBindings=binds), None)
        size = 4 * len(kernel.parameters) if glsl.pushes(kernel) else 0
        ranges = [vk.VkPushConstantRange(stageFlags=STAGE, offset=0, size=size)] if size else []
        wanted = vk.VkPipelineLayoutCreateInfo(
            setLayoutCount=1, pSetLayouts=[shown], pushConstantRangeCount=len(ranges), pPushConstantRanges=ranges
        )
        layout = vk.vkCreatePipelineLayout(self.device, wanted, None)
        module = vk.vkCreateShaderModule(self.device, vk.VkShaderModuleCreateInfo(codeSize=len(code), pCode=code), None)
        stage = vk.VkPipelineShaderStageCreateInfo(stage=STAGE, module=module, pName="main")
        info = vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)
        try:
            return vk.vkCreateComputePipelines(self.device, None, 1, [info], None)[0], layout, shown
        finally:
            vk.vkDestroyShaderModule(self.device, module, None)

    def sets(self, pipe: Pipe, buffers: Sequence[Any]) -> Any:
        """A descriptor set that shows these buffers, as an array of one."""
        key = (pipe.number, *(b.number for b in buffers))
        found = self._sets.get(key)
        if found is None:
            made = pipe.free.pop() if pipe.free else self._fresh(pipe)
            self._write(made[0], buffers)
            for b in buffers:
                b.sets.append(key)
            found = self._sets[key] = pipe, made  # last: an interrupt leaves none that shows something else
        return found[1]

    def forget(self, keys: Sequence[Key]) -> None:
        """A buffer is gone, and nothing uses it: its sets may show others."""
        for key in keys:
            if (found := self._sets.pop(key, None)) is not None:
                found[0].free.append(found[1])

    def _fresh(self, pipe: Pipe) -> Any:
        if self._left[0] < 1 or self._left[1] < pipe.bindings:
            self._pool()
        self._left = self._left[0] - 1, self._left[1] - pipe.bindings
        wanted = vk.VkDescriptorSetAllocateInfo(descriptorPool=self._pools[-1], descriptorSetCount=1, pSetLayouts=[pipe.set_layout])
        with told("making a descriptor set"):
            return vk.vkAllocateDescriptorSets(self.device, wanted)

    def _pool(self) -> None:
        size = vk.VkDescriptorPoolSize(type=STORAGE, descriptorCount=DESCRIPTORS)
        info = vk.VkDescriptorPoolCreateInfo(maxSets=SETS, poolSizeCount=1, pPoolSizes=[size])
        with told("making a pool of descriptor sets"):
            self._pools.append(vk.vkCreateDescriptorPool(self.device, info, None))
        self._left = SETS, DESCRIPTORS

    def _write(self, descriptor_set: Handle, buffers: Sequence[Any]) -> None:
        shown = ffi.new("VkDescriptorBufferInfo[]", len(buffers))
        writes = ffi.new("VkWriteDescriptorSet[]", len(buffers))
        for i, (b, info, write) in enumerate(zip(buffers, shown, writes, strict=True)):
            info.buffer, info.offset = b.handle, b.begin
            info.range = min(-(-b.size // WORD) * WORD, self.limits.binding)
            write.sType, write.dstSet, write.dstBinding = vk.VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, descriptor_set, i
            write.descriptorCount, write.descriptorType, write.pBufferInfo = 1, STORAGE, shown + i
        lib.vkUpdateDescriptorSets(self.device, len(buffers), writes, 0, ffi.NULL)

    def close(self) -> None:
        """Give back everything."""
        for pool in self._pools:
            lib.vkDestroyDescriptorPool(self.device, pool, ffi.NULL)
        for pipe in self._pipes.values():
            lib.vkDestroyPipeline(self.device, pipe.handle, ffi.NULL)
            lib.vkDestroyPipelineLayout(self.device, pipe.layout, ffi.NULL)
            lib.vkDestroyDescriptorSetLayout(self.device, pipe.set_layout, ffi.NULL)
        self._pipes.clear()
        self._sets.clear()


def shared_bytes(kernel: Kernel) -> int:
    """What the work items of a group share."""
    sizes = {"WG": kernel.group, **dict(kernel.constants)}
    arrays = [re.sub(r"\b(\d+)u\b", r"\1", s.length).replace("/", "//") for s in kernel.shared]
    return 4 * (sum(evaluate(length, sizes) for length in arrays) + (kernel.group if reduces(kernel) else 0))
