"""The host's own pages as memory of a device (VK_EXT_external_memory_host)."""

from __future__ import annotations

import numpy as np

from vtcore import system_pages
from vtcore.memory import HOST, PAGED, Array
from vtcore.providers.vulkan.api import Handle, ffi, vk
from vtcore.providers.vulkan.physical import Physical

MAPPED = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
KIND = 0x80  # VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT, which the package doesn't name


class Imports:
    """Pages of one device's host. `types` are the types of memory that they may become, as bits."""

    def __init__(self, device: Handle, alignment: int, types: int) -> None:
        self.device, self.alignment, self.types = device, alignment, types

    @classmethod
    def of(cls, device: Handle, physical: Physical) -> Imports | None:
        """Those of a device, or None where they become no memory that both see."""
        ask, probe = vk.vkGetDeviceProcAddr(device, "vkGetMemoryHostPointerPropertiesEXT"), HOST.fresh(PAGED)
        kinds = vk.vkGetPhysicalDeviceMemoryProperties(physical.handle)
        about = ffi.new("VkMemoryHostPointerPropertiesEXT*")
        about.sType = vk.VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT
        try:
            ask(device, KIND, ffi.cast("void*", probe.ctypes.data), about)
        except (vk.VkError, vk.VkException):
            return None
        seen = (1 << i for i in range(kinds.memoryTypeCount) if kinds.memoryTypes[i].propertyFlags & MAPPED == MAPPED)
        types = about.memoryTypeBits & sum(seen)
        return cls(device, physical.pages, types) if types else None

    def fresh(self, size: int) -> Array:
        """Zeros that are whole pages, of an array of their own."""
        return HOST.fresh(max(self.whole(size), PAGED))

    def whole(self, size: int) -> int:
        """As many bytes or more, in whole pages."""
        return -(-size // self.alignment) * self.alignment

    def memory(self, address: int, size: int, kind: int) -> Handle:
        """Whole pages as memory; who asks keeps them alive. VkError where the driver refuses."""
        source = vk.VkImportMemoryHostPointerInfoEXT(handleType=KIND, pHostPointer=ffi.cast("void*", address))
        return vk.vkAllocateMemory(self.device, vk.VkMemoryAllocateInfo(pNext=source, allocationSize=size, memoryTypeIndex=kind), None)


def possible(physical: Physical) -> bool:
    """Whether a device takes the host's pages, and no larger ones than the system has."""
    return 0 < physical.pages <= system_pages.SIZE


def own(mapped: Array, begin: int, size: int) -> Array:
    """Bytes of an array as those of one of their own: NumPy's views of them refer to that, and so tell whether anybody still looks."""
    return np.frombuffer(mapped.data, np.uint8, size, begin)[:]
