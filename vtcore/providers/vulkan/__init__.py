"""The Vulkan provider: compute kernels as SPIR-V, on whatever devices the system's drivers show."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from vtcore.errors import ArgumentError

if TYPE_CHECKING:
    from vtcore.providers import ProviderOptions
    from vtcore.providers.gpu.provider import Accelerator
    from vtcore.providers.vulkan.physical import Physical

STAGED = "VTCORE_VULKAN_STAGING"  # 1: copies go through a staging buffer, 0: they don't; where the host sees the memory, either may be

SUBGROUPS = "VTCORE_VULKAN_SUBGROUPS"  # 0: kernels use no subgroups, as on devices without; 1: they must


def make(options: ProviderOptions) -> Accelerator:
    """A provider over the device that VTCORE_VULKAN_DEVICE names a part of, else over the best: discrete, integrated, others.

    Raises ProviderUnavailableError, with the reason, where there is no loader, no driver, no device, or none that is new enough."""
    from vtcore.providers.gpu.provider import Accelerator
    from vtcore.providers.vulkan import physical
    from vtcore.providers.vulkan.api import vk
    from vtcore.providers.vulkan.device import Vulkan

    instance = physical.make_instance()
    try:
        chosen = reduced(physical.choose(physical.shown(instance), os.environ.get(physical.CHOICE, "")))
        device = Vulkan(instance, chosen, staged(chosen.shares))
    except BaseException:
        vk.vkDestroyInstance(instance, None)
        raise
    kind = "software, runs on the processor" if chosen.kind == "software" else chosen.kind
    facts = {"device": f"{chosen.name} ({kind})", "driver": f"{chosen.driver}, Vulkan {chosen.version[0]}.{chosen.version[1]}"}
    return Accelerator("vulkan", device, facts)


def staged(shares: bool) -> bool:
    """Whether copies go through a staging buffer: where the device doesn't share the host's memory, unless VTCORE_VULKAN_STAGING says."""
    wanted = _said(STAGED)
    return not shares if wanted is None else wanted


def reduced(chosen: Physical) -> Physical:
    """The device as it will be used: without its subgroups where VTCORE_VULKAN_SUBGROUPS says so.

    Raises ArgumentError where it asks for what the device lacks."""
    wanted = _said(SUBGROUPS)
    if wanted and not chosen.limits.subgroups:
        raise ArgumentError(f"{SUBGROUPS} is '1', and {chosen.name} has no subgroups that add and compare; it must be 0, or not be set")
    return replace(chosen, limits=replace(chosen.limits, subgroups=0)) if wanted is False else chosen


def _said(variable: str) -> bool | None:
    wanted = os.environ.get(variable, "")
    if wanted not in ("", "0", "1"):
        raise ArgumentError(f"{variable} is {wanted!r}; it must be 0 or 1, or not be set")
    return wanted == "1" if wanted else None
