"""A provider over a device: the table's kernels, recorded as the device records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any

import numpy as np

from vtcore.errors import KernelBuildError, ProviderError
from vtcore.op import Call, Op
from vtcore.provider import Decline, Function, Provider, Sink
from vtcore.providers.gpu.device import Device, too_large
from vtcore.providers.gpu.parts import Axes, can_be_cut, parts
from vtcore.providers.gpu.table import TABLE, Entry, table
from vtcore.tensor import Tensor


class Accelerator(Provider):
    """All ops of the table on one device. Every provider of an accelerator is one of these over a device of its own."""

    def __init__(self, name: str, device: Device, facts: Mapping[str, str]) -> None:
        super().__init__(name, device, facts)
        self.device = device
        for entry in table().values():
            guard = None if entry.declines is None else partial(entry.declines, device)
            self.kernel(entry.op, declines=guard)(_on(entry, device))

    def accept(self, op: Op, call: Call) -> Function | Decline:
        """As every provider, once all arguments are such that a kernel of the device can see them."""
        longs = TABLE[op.name].longs if op.name in TABLE else ()
        for name, value in call.items():
            for tensor in several(value):
                if not isinstance(tensor, Tensor) or self._cut(op, tensor, name):
                    continue
                if reason := _unseen(tensor, self.device, long=name in longs):
                    return Decline(self.name, op.name, f"{name}: {reason}")
        return super().accept(op, call)

    @property
    def records(self) -> bool:
        """Always: every kernel goes through the device."""
        return True

    def record(self, sink: Sink) -> AbstractContextManager[None]:
        """Hand over each launch."""
        return self.device.record(sink)

    def seal(self, launches: Sequence[Any]) -> Callable[[], None]:
        """As the device does."""
        return self.device.seal(launches)

    def prepare(self, op: Op, weight: Any) -> None:
        """Upload a weight once, at load, where a kernel will read it."""
        if self.takes(op, weight):
            if axes := self._cut(op, weight):
                parts(self.device, weight, axes)
            else:
                weight.storage.at(self.device)

    def takes(self, op: Op, weight: Any) -> bool:
        """Whether there is a kernel that can see it, at least in parts."""
        seen = op.name in self.kernels and isinstance(weight, Tensor)
        return seen and (not _unseen(weight, self.device) or bool(self._cut(op, weight)))

    def brings(self, op: Op, call: Call) -> Call:
        """All arguments but those that are cut in parts, each of which is brought for good."""
        names = TABLE[op.name].parts if op.name in TABLE else {}
        return call | {n: [t for t in several(call[n]) if not self._cut(op, t, n)] for n in names} if names else call

    def _cut(self, op: Op, tensor: Any, name: str = "") -> Axes:
        """Along what a weight is cut because no kernel sees all of it: an op's argument of that name, or its weight. () where it isn't."""
        names = TABLE[op.name].parts if op.name in TABLE else {}
        axes = names.get(name, ()) if name else max(names.values(), default=())
        if not axes or not isinstance(tensor, Tensor) or not too_large(tensor, self.device.limits):
            return ()
        return axes if can_be_cut(tensor, axes, self.device.limits) else ()

    @property
    def repacks(self) -> bool:
        """Weights are copied, unless device and host share one memory."""
        return not self.device.shares

    def close(self) -> None:
        """Give back the device's objects."""
        self.device.close()


def _on(entry: Entry, device: Device) -> Function:
    """What runs an op on a device. KernelBuildError, naming the op, where one of its kernels can't be built and nothing was changed yet."""
    launching = partial(entry.function, device)

    @wraps(launching)
    def run(**call: Any) -> Any:
        before = device.launched
        try:
            return launching(**call)
        except KernelBuildError as wrong:
            if entry.op.writes and device.launched > before:
                raise ProviderError(f"{entry.op.name} stopped half-way on {device.name}, with its arguments changed: {wrong}") from wrong
            raise KernelBuildError(f"{entry.op.name}: {wrong}") from wrong

    return run


def several(value: Any) -> Sequence[Any]:
    """An argument that may be a list, as one."""
    return value if isinstance(value, (list, tuple)) else (value,)


def _unseen(tensor: Tensor, device: Device, *, long: bool = False) -> str | None:
    if not long and isinstance(tensor.dtype, np.dtype) and tensor.dtype.kind in "iu" and tensor.dtype.itemsize > 4:
        return f"it is {tensor.dtype}; kernels take int32"
    return too_large(tensor, device.limits)
