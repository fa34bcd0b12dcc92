"""A kernel's SPIR-V: shipped with the package, by a hash of its GLSL text; where that is none, compiled by glslc and kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from vtcore.caches import cache_directory
from vtcore.errors import KernelBuildError
from vtcore.kernel_files import kernel_files
from vtcore.memory import Array
from vtcore.providers.kernels.declare import Kernel
from vtcore.providers.kernels.targets import glsl
from vtcore.providers.vulkan import packing
from vtcore.providers.vulkan.module import exact

PACKED = "spirv.xz"
COMPILER = "glslc"
OPTIONS = ("-O0", "--target-env=vulkan1.2", "-fshader-stage=comp")
REVISION = 2  # of what is done to a compiler's output
SECONDS = 120


def of(kernel: Kernel, subgroups: bool = False) -> bytes:
    """A variant's SPIR-V, for devices with subgroups or without.

    KernelBuildError, with the compiler's words, where there is none and none can be made."""
    text = glsl.source(kernel, subgroups)
    name = digest(text)
    return shipped(name) or kernel_files().sealed(_where(name)) or _made(kernel.name, name, text)


def digest(text: str) -> str:
    """What a text's SPIR-V is called."""
    return hashlib.sha256("\0".join((*OPTIONS, str(REVISION), text)).encode()).hexdigest()[:32]


def shipped(name: str) -> bytes | None:
    """What the package holds under a digest."""
    words = packed().get(name)
    return None if words is None else exact(packing.restored(words))


@lru_cache(None)
def packed() -> dict[str, Array]:
    """All that is shipped, by digest; nothing where nothing was built."""
    path = files(__package__) / PACKED
    return packing.unpack(path.read_bytes()) if path.is_file() else {}


def compiled(name: str, text: str) -> bytes:
    """A text through glslc. Not optimised there: it would take divisions by a constant for products; drivers do the rest themselves."""
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise KernelBuildError(
            f"kernel {name}: vtcore ships no SPIR-V for its text as it is now, and {COMPILER}, which would make it, isn't on PATH"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.comp"), Path(folder, "kernel.spv")
        source.write_text(text)
        try:
            ran = subprocess.run([compiler, *OPTIONS, source, "-o", target], capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KernelBuildError(f"kernel {name}: {COMPILER} doesn't run: {error}") from error
        if ran.returncode or not target.is_file():
            raise KernelBuildError(f"kernel {name}: {COMPILER} says: {(ran.stderr or ran.stdout).replace(str(source), 'line')[:2000]}")
        return exact(target.read_bytes())


def _where(name: str) -> Path:
    return cache_directory() / "kernels" / "spirv" / f"{name}.spv"


def _made(kernel: str, name: str, text: str) -> bytes:
    code = compiled(kernel, text)
    kernel_files().put(_where(name), code, seal=True)  # without room or right it is compiled again next time
    return code
