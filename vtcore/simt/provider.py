"""What stands in for a provider whose hardware isn't here: its own table of kernels, its target's own text, run on the processor."""

from __future__ import annotations

from vtcore.errors import ProviderUnavailableError
from vtcore.provider import Provider
from vtcore.providers import find
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.kernels.targets import cuda, metal
from vtcore.simt.compiler import compiler, version
from vtcore.simt.device import ShimDevice

SOURCES = {"cuda": cuda.source, "metal": metal.source}
LANGUAGES = {"cuda": "CUDA C++", "metal": "Metal"}


def found(name: str) -> Provider:
    """As `find`; of `cuda` and `metal`, where they can't work here, the one that runs their kernels on the processor.

    Raises ProviderUnavailableError where that lacks a C++ compiler too."""
    try:
        return find(name)
    except ProviderUnavailableError as missing:
        if name not in SOURCES:
            raise
        return stand_in(name, str(missing))


def stand_in(name: str, why: str = "") -> Provider:
    """The provider of that name over the host's memory. Its facts say that no hardware took part."""
    made = version(compiler())
    note = (
        f"no {name} device took part: the kernels' {LANGUAGES[name]} text, compiled by {made}, ran on this processor, each launch in "
        "two orders of its work items; it was never run on real hardware here"
    )
    return Accelerator(name, ShimDevice(name, SOURCES[name]), {"device": f"none ({why})" if why else "none", "note": note})
