"""The CUDA provider: cuda-python's driver API, and NVRTC for the architecture that is there. Never run on a real one yet."""

from __future__ import annotations

import os
from typing import Any

from vtcore.errors import ProviderUnavailableError
from vtcore.providers import ProviderOptions
from vtcore.providers.cuda import nvrtc, products
from vtcore.providers.cuda.device import CUDA
from vtcore.providers.cuda.driver import NEVER, Driver, load
from vtcore.providers.gpu.provider import Accelerator

CHOICE = "VTCORE_CUDA_DEVICE"  # a part of a device's name, or its number
MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ..._MINOR
OLDEST = (7, 5)


def make(options: ProviderOptions) -> Accelerator:
    """A provider over the device that VTCORE_CUDA_DEVICE names, or the first. Raises ProviderUnavailableError where there is none."""
    driver = load()
    number, name = chosen(driver)
    capability = _capability(driver, number)
    if capability < OLDEST:
        raise ProviderUnavailableError(f"cuda: {name} has compute capability {_dotted(capability)}; from {_dotted(OLDEST)} on is supported")
    try:
        made = nvrtc.version()
    except Exception as missing:  # which one, differs by cuda-python's version
        raise ProviderUnavailableError(f"cuda: NVRTC isn't here ({type(missing).__name__}): pip install 'vtcore[cuda]'") from missing
    device = CUDA(driver, number, "sm_{}{}".format(*capability), nvrtc.compiled)
    facts = {"device": name, "compute capability": _dotted(capability), "NVRTC": _dotted(made), "note": NEVER}
    return products.made(device, facts) if options.numerics == "fast" else Accelerator("cuda", device, facts)


def chosen(driver: Driver) -> tuple[int, str]:
    """The number and name of the device that is wanted. Raises ProviderUnavailableError where there is none such."""
    names = [_name(driver, i) for i in range(driver("cuDeviceGetCount"))]
    wanted = os.environ.get(CHOICE, "")
    for number, name in enumerate(names):
        if wanted in ("", str(number)) or wanted.lower() in name.lower():
            return number, name
    raise ProviderUnavailableError(
        f"cuda: {CHOICE} is {wanted!r}, which is no device's number or part of a name; there are {'; '.join(names)}"
    )


def _name(driver: Driver, number: int) -> str:
    name: bytes = driver("cuDeviceGetName", 256, driver("cuDeviceGet", number))
    return name.split(b"\0")[0].decode(errors="replace").strip()


def _capability(driver: Driver, number: int) -> tuple[int, int]:
    device = driver("cuDeviceGet", number)
    return tuple(driver("cuDeviceGetAttribute", _attribute(driver, a), device) for a in (MAJOR, MINOR))


def _attribute(driver: Driver, number: int) -> Any:
    return driver.module.CUdevice_attribute(number)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
