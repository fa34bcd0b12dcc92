"""The binding to Vulkan's loader, and its failures in words. Importing this is what finds out that there is no loader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vtcore.errors import ProviderError, ProviderUnavailableError

try:
    import vulkan
except ImportError as error:
    raise ProviderUnavailableError(f"vulkan: the package vulkan can't be imported ({error}); pip install 'vtcore[vulkan]'") from error
except OSError as error:
    raise ProviderUnavailableError(
        "vulkan: there is no loader (libvulkan.so.1); it comes with a graphics driver; on Debian, libvulkan1 and mesa-vulkan-drivers "
        "run on the processor"
    ) from error

vk: Any = vulkan
lib, ffi = vk.lib, vk.ffi
LOST = vk.VK_ERROR_DEVICE_LOST
OUT_OF_MEMORY = (vk.VkErrorOutOfDeviceMemory, vk.VkErrorOutOfHostMemory, vk.VkErrorTooManyObjects)
Handle = Any  # of a Vulkan object


def name_of(code: int) -> str:
    """A result code as Vulkan's headers name it."""
    known = vk.exception_codes.get(code)
    return f"result {code}" if known is None else known.__name__


@contextmanager
def told(doing: str) -> Iterator[None]:
    """ProviderError for what a call raises, saying what was being done."""
    try:
        yield
    except (vk.VkError, vk.VkException) as error:
        raise ProviderError(f"vulkan: {doing}: {type(error).__name__}") from error
