"""The Vulkan provider: compute kernels as SPIR-V, on whatever devices the system's drivers show."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vtcore.errors import ArgumentError

if TYPE_CHECKING:
    from vtcore.providers import ProviderOptions
    from vtcore.providers.gpu.provider import Accelerator

STAGED = "VTCORE_VULKAN_STAGING"  # 1: copies go through a staging buffer, 0: they don't; where the host sees the memory, either may be


def make(options: ProviderOptions) -> Accelerator:
    """A provider over the device that VTCORE_VULKAN_DEVICE names a part of, else over the best: discrete, integrated, others.

    Raises ProviderUnavailableError, with the reason, where there is no loader, no driver, no device, or none that is new enough."""
    from vtcore.providers.gpu.provider import Accelerator
    from vtcore.providers.vulkan import physical
    from vtcore.providers.vulkan.api import vk
    from vtcore.providers.vulkan.device import Vulkan

    instance = physical.make_instance()
    try:
        chosen = physical.choose(physical.shown(instance), os.environ.get(physical.CHOICE, ""))
        device = Vulkan(instance, chosen, staged(chosen.shares))
    except BaseException:
        vk.vkDestroyInstance(instance, None)
        raise
    kind = "software, runs on the processor" if chosen.kind == "software" else chosen.kind
    facts = {"device": f"{chosen.name} ({kind})", "driver": f"{chosen.driver}, Vulkan {chosen.version[0]}.{chosen.version[1]}"}
    return Accelerator("vulkan", device, facts)


def staged(shares: bool) -> bool:
    """Whether copies go through a staging buffer: where the device doesn't share the host's memory, unless VTCORE_VULKAN_STAGING says."""
    wanted = os.environ.get(STAGED, "")
    if wanted not in ("", "0", "1"):
        raise ArgumentError(f"{STAGED} is {wanted!r}; it must be 0 or 1, or not be set")
    return not shares if not wanted else wanted == "1"
