"""Which variants of which kernels the table of accelerators launches: found by running every op's samples on a device that runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vtcore.conformance.case import Case, cases
from vtcore.conformance.laid import Arguments
from vtcore.dispatch import Dispatcher
from vtcore.errors import DeclinedError
from vtcore.memory import Array, Held, HostMemory
from vtcore.op import Op
from vtcore.providers.gpu.device import Device, Values
from vtcore.providers.gpu.provider import Accelerator
from vtcore.providers.kernels.declare import Kernel
from vtcore.simt.device import LIMITS


class Listing(HostMemory, Device):
    """Takes launches, and runs none: it keeps each variant that was bound, by name."""

    name = "listing"

    def __init__(self) -> None:
        super().__init__()
        self.limits = LIMITS
        self.variants: dict[str, Kernel] = {}

    def bind(self, kernel: Kernel, buffers: Sequence[Any], values: Values, groups: int) -> Any:
        self.variants[kernel.name] = kernel

    def enqueue(self, bound: Any) -> None:
        """Nothing."""

    def upload(self, held: Held, offset: int, host: Array) -> None:
        """Nothing: no kernel will read it."""

    def synchronize(self) -> None:
        """Nothing is under way."""


def used(ops: Iterable[Op]) -> dict[str, list[Kernel]]:
    """By op, the variants that its samples launch and that no op before it did; of an op that the table lacks, none."""
    device = Listing()
    provider, out = Accelerator("listing", device, {}), dict[str, list[Kernel]]()
    for op in ops:
        before = set(device.variants)
        for case in cases(op):
            _run(provider, case)
        out[op.name] = [v for n, v in device.variants.items() if n not in before]
    return out


def _run(provider: Accelerator, case: Case) -> None:
    try:
        with Dispatcher([provider], strict=True):
            case.op(**Arguments(case).tensors())
    except DeclinedError:
        return  # it launches nothing
