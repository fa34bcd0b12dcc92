"""Kernels as pipelines."""

from __future__ import annotations

import re
import struct

from vtcore.errors import KernelBuildError
from vtcore.providers.gpu.device import Limits, Values
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import glsl
from vtcore.providers.kernels.targets.common import reduces
from vtcore.providers.vulkan import spirv
from vtcore.providers.vulkan.api import Handle, ffi, lib, vk
from vtcore.providers.vulkan.sets import Sets
from vtcore.signature import evaluate

FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
STAGE = vk.VK_SHADER_STAGE_COMPUTE_BIT


class Pipe:
    """A kernel variant, compiled."""

    def __init__(self, kernel: Kernel, handle: Handle, layout: Handle) -> None:
        self.handle, self.layout = handle, layout
        self.pushes = glsl.pushes(kernel)
        self.reads = tuple(i for i, b in enumerate(kernel.buffers) if not b.written)
        self.writes = tuple(i for i, b in enumerate(kernel.buffers) if b.written)
        self.pack = struct.Struct("<" + "".join(FORMATS[s.dtype] for s in kernel.parameters)).pack

    def packed(self, values: Values) -> bytes:
        """A launch's parameters as the kernel reads them."""
        return self.pack(*values)


class Pipelines:
    """All of one device."""

    def __init__(self, device: Handle, name: str, limits: Limits, bindings: int, sets: Sets) -> None:
        self.device, self.name, self.limits, self.bindings, self.sets = device, name, limits, bindings, sets
        self._pipes: dict[str, Pipe] = {}
        self._failed: dict[str, str] = {}

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
            return Pipe(kernel, *self._compiled(kernel, code))
        except (vk.VkError, vk.VkException) as error:
            raise KernelBuildError(f"kernel {kernel.name}: the driver of {self.name} can't build it: {type(error).__name__}") from error

    def _too_much(self, kernel: Kernel) -> str | None:
        """What of the kernel the device has not."""
        bindings = _bindings(kernel)
        if bindings > self.bindings:
            return f"it sees {bindings} buffers; the device shows a kernel {self.bindings}"
        if kernel.group > self.limits.group:
            return f"its groups have {kernel.group} work items; the device takes {self.limits.group}"
        shares = shared_bytes(kernel)
        return f"its groups share {shares:,} bytes; the device has {self.limits.local:,}" if shares > self.limits.local else None

    def _compiled(self, kernel: Kernel, code: bytes) -> tuple[Handle, Handle]:
        shown = self.sets.layout(_bindings(kernel))
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
            return vk.vkCreateComputePipelines(self.device, None, 1, [info], None)[0], layout
        finally:
            vk.vkDestroyShaderModule(self.device, module, None)

    def close(self) -> None:
        """Give back everything."""
        for pipe in self._pipes.values():
            lib.vkDestroyPipeline(self.device, pipe.handle, ffi.NULL)
            lib.vkDestroyPipelineLayout(self.device, pipe.layout, ffi.NULL)
        self._pipes.clear()


def _bindings(kernel: Kernel) -> int:
    """How many buffers it sees, with that of its parameters where they aren't pushed."""
    return len(kernel.buffers) + (not glsl.pushes(kernel))


def shared_bytes(kernel: Kernel) -> int:
    """What the work items of a group share."""
    sizes = {"WG": kernel.group, **dict(kernel.constants)}
    arrays = [re.sub(r"\b(\d+)u\b", r"\1", s.length).replace("/", "//") for s in kernel.shared]
    return 4 * (sum(evaluate(length, sizes) for length in arrays) + (kernel.group if reduces(kernel) else 0))
