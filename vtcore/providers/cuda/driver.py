"""CUDA's driver API through cuda-python, with errors as exceptions, in whatever thread a call comes from."""

from __future__ import annotations

import os
import threading
from typing import Any

from vtcore.errors import OutOfMemoryError, ProviderError, ProviderUnavailableError
from vtcore.providers.gpu.device import FORKED

STICKY = frozenset(
    ("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT", "CUDA_ERROR_MISALIGNED_ADDRESS",
     "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_HARDWARE_STACK_ERROR",
     "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_ASSERT", "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_DEINITIALIZED",
     "CUDA_ERROR_CONTEXT_IS_DESTROYED")
)  # fmt: skip
INSTALL = "pip install 'vtcore[cuda]'"
NEVER = "never run on an NVIDIA device yet; `vtcore check cuda` runs its kernels' text on the processor"


class Current(threading.local):
    """The context that was made this thread's, by whichever driver."""

    context: Any = None


CURRENT = Current()


class Driver:
    """`driver("cuMemAlloc", n)` calls a function of the API and gives its result. Raises ProviderError for its errors.

    After an error that stays (an illegal address, say) every call raises at once: what the device held is lost with the process. So it
    does once the context was given back, and in a process that was forked."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.context: Any = None
        self.lost = ""  # why nothing can be called any more
        self._process = os.getpid()

    def __call__(self, name: str, *args: Any) -> Any:
        self.enter()
        status, *results = getattr(self.module, name)(*args)
        if int(status):
            raise self._error(name, status)
        return results[0] if len(results) == 1 else tuple(results)

    def enter(self) -> None:
        """Make the context that of this thread, for whoever else works in it. Raises ProviderError for a device that is lost or closed."""
        if self.lost or self.inherited:
            raise ProviderError(f"cuda: the device {self.lost or FORKED}")
        if self.context is not None and CURRENT.context is not self.context:
            self.module.cuCtxSetCurrent(self.context)
            CURRENT.context = self.context

    @property
    def inherited(self) -> bool:
        """Whether another process started it, of which this one is a fork."""
        return self._process != os.getpid()

    def _error(self, name: str, status: Any) -> Exception:
        code = getattr(status, "name", str(status))
        if code == "CUDA_ERROR_OUT_OF_MEMORY":
            return OutOfMemoryError(f"cuda: {name}: the device's memory is used up")
        if code in STICKY:
            self.lost = f"failed earlier ({name}: {code}), and what it held is lost: start the process anew"
        return ProviderError(f"cuda: {name} failed: {code}")

    def use(self, device: Any) -> None:
        """Work on a device, in its primary context."""
        self.context = self("cuDevicePrimaryCtxRetain", device)

    def release(self, device: Any) -> None:
        """Give its context back, in which others of this process may still work."""
        self("cuDevicePrimaryCtxRelease", device)
        self.context, self.lost = None, "was closed, and what it held is gone: load the model again"


def load() -> Driver:
    """The API. Raises ProviderUnavailableError without cuda-python, a driver, or a device."""
    try:
        from cuda.bindings import driver as module
    except ImportError as missing:
        raise ProviderUnavailableError(f"cuda: cuda-python isn't installed ({missing}): {INSTALL}") from missing
    try:
        (status,) = module.cuInit(0)
    except Exception as missing:  # which one, differs by cuda-python's version
        raise ProviderUnavailableError(f"cuda: there is no NVIDIA driver on this machine (libcuda isn't found; {NEVER})") from missing
    if int(status):
        raise ProviderUnavailableError(f"cuda: the NVIDIA driver doesn't start: {getattr(status, 'name', status)}")
    driver = Driver(module)
    if not driver("cuDeviceGetCount"):
        raise ProviderUnavailableError("cuda: the NVIDIA driver shows no device (CUDA_VISIBLE_DEVICES chooses among them)")
    return driver
