"""Every CUDA text through NVRTC, without a device: what each kernel takes of registers, and whether any of them spill.

    python tools/check_nvrtc.py [--all]

All variants that the ops' samples launch are compiled for the oldest and the most usual architecture, and the first of each op for the
others (--all: all that are declared, for all). Exit status 1 where a kernel spills one byte of registers, or isn't compiled."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from time import perf_counter

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.errors import VtcoreError
from vtcore.op import REGISTRY
from vtcore.providers.cuda.nvrtc import Use, uses
from vtcore.providers.kernels.declare import KERNELS, Kernel
from vtcore.providers.kernels.targets import cuda
from vtcore.simt.program import undefined
from vtcore.simt.used import used

FULLY = ("sm_75", "sm_90")
PARTLY = ("sm_80", "sm_86", "sm_89", "sm_100", "sm_120")
TOGETHER = 16  # variants in one program


def together(variants: Sequence[Kernel]) -> str:
    """Several variants as one text, each in a namespace of its own."""
    texts = [cuda.source(v) for v in variants]
    return "".join(f"namespace vt_{i} {{\n{text}}}\n{undefined(text)}" for i, text in enumerate(texts))


def taken(variants: Sequence[Kernel], architecture: str) -> Iterator[Use]:
    """What each variant takes on an architecture. Raises ProviderError where NVRTC refuses one."""
    for begin in range(0, len(variants), TOGETHER):
        part = variants[begin : begin + TOGETHER]
        found = {use.kernel: use for use in uses(together(part), architecture)}
        yield from (found[v.name] for v in part)


@cache
def launched() -> list[list[Kernel]]:
    """By op, the variants that its samples launch. All kernels are declared then."""
    return list(used(REGISTRY.values()).values())


def chosen(architecture: str, everything: bool = False) -> list[Kernel]:
    """What is compiled for an architecture: all variants that are declared, all that the ops' samples launch, or the first of each op."""
    found = launched()
    if everything:
        return [v for kernel in KERNELS.values() for v in kernel.variants]
    return [v for variants in found for v in (variants if architecture in FULLY else variants[:1])]


def main() -> int:
    """Print, and fail for spills."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--all", action="store_true", help="all declared variants for all architectures")
    everything = parser.parse_args().all
    spilling: dict[str, list[str]] = defaultdict(list)
    try:
        begin = perf_counter()
        for architecture in (*FULLY, *PARTLY):
            found = list(taken(chosen(architecture, everything), architecture))
            most = max(found, key=lambda use: use.registers)
            told = f"{len(found):4d} kernels, at most {most.registers} registers ({most.kernel})"
            print(f"{architecture:7s} {told}, {perf_counter() - begin:.0f} s")
            for use in found:
                if use.spilled:
                    spilling[use.kernel].append(f"{use.spilled} bytes on {architecture}")
    except VtcoreError as wrong:
        print(wrong, file=sys.stderr)
        return 1
    for kernel, where in spilling.items():
        print(f"{kernel} spills {', '.join(where)}")
    print(f"{len(spilling)} kernels spill" if spilling else "no kernel spills")
    return int(bool(spilling))


if __name__ == "__main__":
    sys.exit(main())
