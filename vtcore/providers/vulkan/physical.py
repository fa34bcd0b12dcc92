"""Which device: what the drivers show, and the one that is taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vtcore.errors import ProviderUnavailableError
from vtcore.providers.gpu.device import Limits
from vtcore.providers.vulkan.api import Handle, ffi, lib, vk

CHOICE = "VTCORE_VULKAN_DEVICE"  # a part of a device's name
HOST_PAGES = vk.VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME
OLDEST = (1, 2)  # timeline semaphores
SUBGROUP_OPERATIONS = vk.VK_SUBGROUP_FEATURE_BASIC_BIT | vk.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT
KINDS = {
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: "discrete",
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: "integrated",
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: "virtual",
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU: "software",
}  # first those that are taken first


@dataclass(frozen=True)
class Physical:
    """A device as its driver describes it."""

    handle: Handle
    name: str
    kind: str
    version: tuple[int, int]
    driver: str
    limits: Limits
    bindings: int  # buffers that a kernel may see
    pages: int = 0  # what the host's bytes begin and end at that it takes for memory; 0: it takes none
    offsets: int = 256  # what a place within a buffer is a multiple of that a kernel sees
    allocations: int = 4096  # pieces of memory that there may be

    @property
    def shares(self) -> bool:
        """Whether its memory is the processor's own, so that nothing needs to be copied to get there."""
        return self.kind in ("integrated", "software")


def make_instance() -> Handle:
    """A connection to the loader and all drivers. ProviderUnavailableError where no driver answers."""
    about = vk.VkApplicationInfo(pApplicationName="vtcore", pEngineName="vtcore", apiVersion=vk.VK_MAKE_VERSION(*OLDEST, 0))
    try:
        return vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=about, enabledLayerCount=0, enabledExtensionCount=0), None)
    except (vk.VkError, vk.VkException) as error:
        raise ProviderUnavailableError(
            f"vulkan: no driver works here ({type(error).__name__}); VK_DRIVER_FILES names drivers' files where they aren't found; on "
            "Debian, mesa-vulkan-drivers runs on the processor"
        ) from error


def shown(instance: Handle) -> list[Physical]:
    """All devices, those that are taken first in front. ProviderUnavailableError where there is none."""
    try:
        found = [described(h) for h in vk.vkEnumeratePhysicalDevices(instance)]
    except (vk.VkError, vk.VkException) as error:
        raise ProviderUnavailableError(f"vulkan: the drivers can't say which devices there are ({type(error).__name__})") from error
    if not found:
        raise ProviderUnavailableError("vulkan: the drivers show no device")
    order = [*KINDS.values(), "other"]
    return sorted(found, key=lambda d: order.index(d.kind))


def described(handle: Handle) -> Physical:
    """What a driver says of a device."""
    seen = vk.vkGetPhysicalDeviceProperties(handle)
    version = seen.apiVersion >> 22 & 127, seen.apiVersion >> 12 & 1023
    driver = "driver" if version < OLDEST else _driver(handle)
    most = seen.limits  # a view of `seen`: its numbers must be taken while that lives
    limits = Limits(
        binding=most.maxStorageBufferRange,
        memory=_largest(handle),
        local=most.maxComputeSharedMemorySize,
        group=min(most.maxComputeWorkGroupInvocations, most.maxComputeWorkGroupSize[0]),
        subgroups=0 if version < OLDEST else _subgroups(handle),
    )
    kind = KINDS.get(seen.deviceType, "other")
    pages = 0 if version < OLDEST else _pages(handle)
    return Physical(
        handle,
        seen.deviceName,
        kind,
        version,
        driver,
        limits,
        most.maxPerStageDescriptorStorageBuffers,
        pages,
        most.minStorageBufferOffsetAlignment,
        most.maxMemoryAllocationCount,
    )


def choose(found: list[Physical], wanted: str) -> Physical:
    """The first device whose name holds `wanted`. ProviderUnavailableError where none does, or where it is too old."""
    named = [d for d in found if wanted.lower() in d.name.lower()]
    if not named:
        raise ProviderUnavailableError(
            f"vulkan: {CHOICE} is {wanted!r}, which no device's name holds; there are {'; '.join(d.name for d in found)}"
        )
    fit = [d for d in named if d.version >= OLDEST]
    if not fit:
        old = "; ".join(f"{d.name} has {d.version[0]}.{d.version[1]}" for d in named)
        raise ProviderUnavailableError(f"vulkan: version {OLDEST[0]}.{OLDEST[1]} is needed; {old}: a newer driver may have more")
    return fit[0]


def _largest(handle: Handle) -> int:
    """Bytes of the largest heap of its own that a device has."""
    seen = vk.vkGetPhysicalDeviceMemoryProperties(handle)
    heaps = [seen.memoryHeaps[i] for i in range(seen.memoryHeapCount)]
    return max(int(h.size) for h in heaps if h.flags & vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)


def _driver(handle: Handle) -> str:
    about = _more(handle, "VkPhysicalDeviceDriverProperties", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES)
    parts = (ffi.string(text).decode(errors="replace") for text in (about.driverName, about.driverInfo))
    return " ".join(filter(None, parts))


def _subgroups(handle: Handle) -> int:
    """Work items of a subgroup; 0 where those of compute kernels can't add and compare."""
    about = _more(handle, "VkPhysicalDeviceSubgroupProperties", vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES)
    able = about.supportedOperations & SUBGROUP_OPERATIONS == SUBGROUP_OPERATIONS
    return int(about.subgroupSize) if able and about.supportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT else 0


def _more(handle: Handle, type_: str, number: int) -> Any:
    """One of the structures in which a driver says more."""
    about, whole = ffi.new(f"{type_}*"), ffi.new("VkPhysicalDeviceProperties2*")
    about.sType, whole.sType, whole.pNext = number, vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, about
    lib.vkGetPhysicalDeviceProperties2(handle, whole)
    return about


def _pages(handle: Handle) -> int:
    """What the host's memory must begin and end at, so that the device takes it for its own; 0 where it takes none."""
    if all(e.extensionName != HOST_PAGES for e in vk.vkEnumerateDeviceExtensionProperties(handle, None)):
        return 0
    kind = vk.VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT
    return int(_more(handle, "VkPhysicalDeviceExternalMemoryHostPropertiesEXT", kind).minImportedHostPointerAlignment)
