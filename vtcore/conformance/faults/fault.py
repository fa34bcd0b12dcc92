"""What a fault is, and the list of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.op import REGISTRY
from vtcore.provider import Function
from vtcore.providers.arrays import Arrays

Kernel = Callable[..., Any]


@dataclass(frozen=True)
class Fault:
    """A wrong kernel of one op, and what a check must call it."""

    op: str
    kind: str
    make: Callable[[], Kernel]  # a fresh one, with nothing kept from another run
    says: str

    @property
    def name(self) -> str:
        """op:what, such as rms_norm:eps_outside."""
        return f"{self.op}:{self.make.__name__}"

    def provider(self) -> Arrays:
        """A provider with this kernel alone."""
        provider = Arrays(self.name)
        provider.kernel(self.op)(self.make())
        return provider


FAULTS: list[Fault] = []


def fault(op: str, kind: str = "wrong_value") -> Callable[[Kernel], Kernel]:
    """Register a kernel that is wrong; its docstring says how."""

    def register(kernel: Kernel) -> Kernel:
        def make() -> Kernel:
            return kernel

        make.__name__ = kernel.__name__
        FAULTS.append(Fault(op, kind, make, kernel.__doc__ or ""))
        return kernel

    return register


def remembering(op: str, kind: str = "stateful") -> Callable[[Callable[[], Kernel]], Callable[[], Kernel]]:
    """As `fault`, of what makes a kernel that keeps something between its calls."""

    def register(make: Callable[[], Kernel]) -> Callable[[], Kernel]:
        FAULTS.append(Fault(op, kind, make, make.__doc__ or ""))
        return make

    return register


def right(op: str, **call: Any) -> Any:
    """What the definition gives."""
    return REGISTRY[op].reference(**call)


__all__ = ["FAULTS", "Fault", "Function", "Kernel", "fault", "remembering", "right"]
