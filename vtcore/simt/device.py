"""A device whose memory is the host's, and whose kernels are a target's own text, compiled as C++: what is run without the hardware."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vtcore.errors import ProviderError
from vtcore.memory import Array, Held, HostMemory
from vtcore.providers.gpu.device import Device, Limits, Values
from vtcore.providers.kernels.declare import KERNELS, Kernel
from vtcore.simt.program import Program, Settings, Text

FORMATS = {"u32": "I", "i32": "i", "f32": "f"}
SUBGROUP = 32  # work items, as CUDA and Metal have
LIMITS = Limits(binding=1 << 31, memory=0, local=32 * 1024, group=256, subgroups=SUBGROUP)  # the least that a device of any target has
WIDEST = 1 << 15  # groups along the first axis of a grid
MOST = 32  # variants in one text
FORWARD, BACKWARD = 0, 1
NAN, ODD = 0xFFFFFFFF, 0x3F8F3F8F  # what shared memory holds before a group begins


class ShimDevice(HostMemory, Device):
    """Each launch is run twice, in order and in reverse, over shared memory that holds something else; both must give the same bits."""

    def __init__(self, language: str, source: Callable[[Kernel], str]) -> None:
        super().__init__()
        self.name, self.language, self.source, self.limits = f"{language} on the processor", language, source, LIMITS
        self._programs: dict[str, Program] = {}

    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Any:
        """Compiles the variant where it has not been yet. Raises ProviderError with the compiler's words."""
        if kernel.name not in self._programs:
            self._compile_with_its_like(kernel)
        packed = struct.pack("=" + "".join(FORMATS[p.dtype] for p in kernel.parameters), *values)
        return kernel, tuple(buffers), packed, groups

    def _compile_with_its_like(self, kernel: Kernel) -> None:
        """All variants of a declared kernel as one text, since a compiler's start takes longer than a variant."""
        declared = next((k for k in KERNELS.values() if kernel.name.startswith(k.name) and kernel in k.variants), None)
        try:
            self.compile([kernel] if declared is None or len(declared.variants) > MOST else declared.variants)
        except ProviderError:
            self.compile([kernel])  # one that the compiler refuses is no matter of the others

    def compile(self, kernels: Sequence[Kernel]) -> None:
        """Several variants as one text: quicker than one by one."""
        program = Program([Text(self.source(k), self.language, k.name) for k in kernels])
        self._programs |= {k.name: program for k in kernels}

    def enqueue(self, bound: Any) -> None:
        kernel, buffers, packed, groups = bound
        written = {id(b): b for b, declared in zip(buffers, kernel.buffers, strict=True) if declared.written}
        before = [b.copy() for b in written.values()]
        self._run(kernel, buffers, packed, settings(kernel, groups, FORWARD, NAN))
        first = [b.copy() for b in written.values()]
        for b, was in zip(written.values(), before, strict=True):
            b[:] = was
        self._run(kernel, buffers, packed, settings(kernel, groups, BACKWARD, ODD))
        if any(not np.array_equal(a, b) for a, b in zip(first, written.values(), strict=True)):
            raise ProviderError(
                f"kernel {kernel.name}: its results change with the order in which work items run, or with what shared memory held before: "
                "a barrier is missing, two work items write one place, or shared memory is read before it is written"
            )

    def _run(self, kernel: Kernel, buffers: Sequence[Array], packed: bytes, chosen: Settings) -> None:
        wrong = self._programs[kernel.name].launch(kernel.name, [b.ctypes.data for b in buffers], packed, chosen)
        if wrong:
            raise ProviderError(f"kernel {kernel.name}: {wrong}")

    def upload(self, held: Held, offset: int, host: Array) -> None:
        held.buffer[offset : offset + host.nbytes] = host.reshape(-1).view(np.uint8)

    def synchronize(self) -> None:
        """A launch is done when it returns."""


def settings(kernel: Kernel, groups: int, order: int, poison: int) -> Settings:
    """A launch of one of vtcore's kernels."""
    wide = min(groups, WIDEST)
    return Settings((wide, -(-groups // wide), 1), (kernel.group, 1, 1), order, 0, poison, int(kernel.meets), SUBGROUP, 0)
