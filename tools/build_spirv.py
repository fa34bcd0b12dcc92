"""Compile every variant of every kernel to SPIR-V, into the one file that the package ships: python tools/build_spirv.py (needs glslc).

What is in the file already is kept, so only texts that changed are compiled. The same texts and compiler give the same file.
With --check it builds nothing, and fails where the file holds anything but today's texts."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vtcore.providers.gpu import views
from vtcore.providers.gpu.table import table
from vtcore.providers.kernels.declare import KERNELS
from vtcore.providers.kernels.targets import glsl
from vtcore.providers.vulkan import packing, spirv

PACKED = Path(spirv.__file__).with_name(spirv.PACKED)


def texts() -> dict[str, tuple[str, str]]:
    """The GLSL of every variant, with its name, by digest."""
    assert table()
    assert views.STRIDED_COPY.name in KERNELS
    variants = [(v.name, text) for kernel in KERNELS.values() for v in kernel.variants for text in glsl.sources(v)]
    return {spirv.digest(text): (name, text) for name, text in variants}


def build(wanted: dict[str, tuple[str, str]]) -> dict[str, bytes]:
    """Each text's SPIR-V."""
    with ThreadPoolExecutor() as pool:
        made = pool.map(lambda digest: spirv.shipped(digest) or spirv.compiled(*wanted[digest]), wanted)
        return dict(zip(wanted, made, strict=True))


def stale(wanted: dict[str, tuple[str, str]]) -> list[str]:
    """What is wrong with the file: names of kernels that it lacks, and how many of its modules nobody wants."""
    held = spirv.packed().keys()
    wrong = [f"{name} is missing" for digest, (name, _) in wanted.items() if digest not in held]
    return wrong + ([f"{len(held - wanted.keys())} modules are of texts that there are no more"] if held - wanted.keys() else [])


def main() -> None:
    """Write the file and say how large it is, or check it."""
    if sys.argv[1:] == ["--check"]:
        wrong = stale(texts())
        sys.exit("\n".join([*wrong, "build it again: python tools/build_spirv.py"]) if wrong else 0)
    modules = build(texts())
    PACKED.write_bytes(packing.pack(modules))
    print(f"{len(modules)} modules, {sum(map(len, modules.values())):,} bytes, packed in {PACKED.stat().st_size:,}: {PACKED.name}")


if __name__ == "__main__":
    main()
