"""NVRTC: CUDA C++ to machine code for one architecture. It needs no driver and no device."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from vtcore.caches import cache_directory
from vtcore.errors import ProviderError, ProviderUnavailableError
from vtcore.kernel_files import kernel_files
from vtcore.providers.kernels.targets.cuda import FLAGS

USE = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers", re.DOTALL)
SHOWN = 2000  # characters of a log


class Use(NamedTuple):
    """What a kernel takes on one architecture."""

    kernel: str
    registers: int
    spilled: int  # bytes of registers that went to memory


@cache
def _module() -> Any:
    try:
        from cuda.bindings import nvrtc

        version()  # loads the library
    except Exception as missing:  # which one, differs by cuda-python's version
        raise ProviderUnavailableError(f"cuda: NVRTC isn't here ({type(missing).__name__}): pip install 'vtcore[cuda]'") from missing
    return nvrtc


@cache
def version() -> tuple[int, int]:
    """NVRTC's. Raises whatever cuda-python raises where it isn't found."""
    from cuda.bindings import nvrtc

    return tuple(nvrtc.nvrtcVersion()[1:])


def compiled(source: str, architecture: str) -> bytes:
    """Machine code for an architecture such as sm_90: from disk where it was compiled before.

    Raises ProviderUnavailableError without NVRTC, ProviderError with its log where it refuses the text."""
    module = _module()
    del module
    key = hashlib.sha256("\0".join((source, architecture, *FLAGS, *map(str, version()))).encode()).hexdigest()[:32]
    path = cache_directory() / "kernels" / "cuda" / f"{key}.cubin"
    if (kept := kernel_files().sealed(path)) is not None:
        return kept
    code, _ = build(source, architecture)
    kernel_files().put(path, code, seal=True)  # without room or right it is compiled again next time
    return code


def build(source: str, architecture: str, options: Sequence[str] = ()) -> tuple[bytes, str]:
    """Machine code, and the compiler's log. Raises as `compiled`."""
    nvrtc = _module()
    call = _caller(nvrtc)
    program = call(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))
    flags = [f"--gpu-architecture={architecture}", *FLAGS, *options]
    status = nvrtc.nvrtcCompileProgram(program, len(flags), [f.encode() for f in flags])[0]
    log = _text(call, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace").strip("\0 \n")
    if int(status):
        raise ProviderError(f"NVRTC for {architecture} doesn't take the kernel's text: {log[:SHOWN]}")
    code = _text(call, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    call(nvrtc.nvrtcDestroyProgram(program))
    return code, log


def _caller(nvrtc: Any) -> Callable[[tuple[Any, ...]], Any]:
    def call(result: tuple[Any, ...]) -> Any:
        if int(result[0]):
            raise ProviderError(f"NVRTC failed: {getattr(result[0], 'name', result[0])}")
        return result[1] if len(result) > 1 else None

    return call


def _text(call: Any, size: Any, get: Any, program: Any) -> bytes:
    out = bytearray(call(size(program)))  # never bytes: Python has one object for all of length 1, and NVRTC writes into what it is given
    if out:
        call(get(program, out))
    return bytes(out)


def uses(source: str, architecture: str) -> Iterator[Use]:
    """Registers and spills of each kernel of a text, as ptxas reports them."""
    _, log = build(source, architecture, ["--ptxas-options=-v"])
    for kernel, stores, loads, registers in USE.findall(log):
        yield Use(kernel, int(registers), int(stores) + int(loads))
