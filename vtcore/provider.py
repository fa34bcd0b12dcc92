"""A provider: a named table of kernels, each with a guard that says why it will not run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from vtcore.errors import ProviderError
from vtcore.memory import HOST, Memory
from vtcore.op import Call, Op
from vtcore.storage import Storage
from vtcore.tensor import bare, held

Guard = Callable[..., str | None]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Decline:
    """One refusal: who would not run what, and why, in words that a kernel author can act on. A value, never an exception."""

    provider: str
    op: str
    reason: str


@dataclass(frozen=True)
class Kernel:
    """A provider's function for one op. It takes the op's arguments by name, as Tensors, and returns Tensors (or None)."""

    op: Op
    function: Function
    guard: Guard | None


@dataclass
class Attempt:
    """A call's function that has a faster way besides its own kernel. `passed` says why the faster one doesn't run, or didn't.

    It is counted as a decline; under strict it is no error, since the op runs where it was wanted."""

    run: Function
    passed: Decline | None = None

    def __call__(self, **call: Any) -> Any:
        return self.run(**call)


Launch = Any  # one launch of a native kernel, with all that is needed to repeat it; only its provider looks inside
Sink = Callable[[Launch, Sequence[Storage]], None]  # takes a launch, and what it reads and writes


@dataclass(eq=False)
class Provider:
    """One backend's kernels over one memory."""

    name: str
    memory: Memory = HOST
    facts: Mapping[str, str] = field(default_factory=dict)  # of the device and the libraries, for `vtcore doctor` and reports
    kernels: dict[str, Kernel] = field(default_factory=dict)

    def kernel(self, op: Op, *, declines: Guard | None = None) -> Callable[[Function], Function]:
        """Register a kernel for `op`. `declines` takes the same arguments and returns a reason, or None to accept."""

        def register(function: Function) -> Function:
            if op.name in self.kernels:
                raise ProviderError(f"provider {self.name!r} has two kernels for {op.name!r}; an op has one, with its variants behind it")
            for part, called in (("kernel", function), ("guard", declines)):
                if called is not None and (wrong := _differs(called, op)):
                    raise ProviderError(f"provider {self.name!r}: the {part} of {op.name} {wrong}")
            self.kernels[op.name] = Kernel(op, function, declines)
            return function

        return register

    def accept(self, op: Op, call: Call) -> Function | Decline:
        """The function that will run this call, or the reason why none will."""
        kernel = self.kernels.get(op.name)
        if kernel is None:
            return Decline(self.name, op.name, "no kernel")
        if kernel.guard is not None and (reason := kernel.guard(**call)):
            return Decline(self.name, op.name, reason)
        return kernel.function

    @property
    def records(self) -> bool:
        """Whether its launches can be recorded and replayed; if not, a captured step calls its kernels anew."""
        return False

    def record(self, sink: Sink) -> AbstractContextManager[None]:
        """While the context is open, hand each launch to `sink` besides running it. Only of providers that record."""
        raise NotImplementedError(f"provider {self.name!r} doesn't record its launches")

    def seal(self, launches: Sequence[Any]) -> Callable[[], None]:
        """Recorded launches as one call that runs them all again, in order. Only of providers that record."""
        raise NotImplementedError(f"provider {self.name!r} doesn't record its launches")

    def page_order(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """How the axes of a cache array should lie in memory, slowest first, to suit its kernels; None: as they are."""
        return None

    def prepare(self, op: Op, weight: Any) -> None:
        """Called once for each weight at load with the op that will read it: a provider may make and keep a repacked form of it."""

    def brings(self, op: Op, call: Call) -> Call:
        """Of a call's arguments those that must be true in its memory before its kernel is called. Only of providers that record."""
        return call

    def takes(self, op: Op, weight: Any) -> bool:
        """Whether nobody behind it in a chain needs to prepare a weight for this op, since it will read it itself."""
        return False

    @property
    def repacks(self) -> bool:
        """Whether what `prepare` keeps takes room besides the weights as they are stored."""
        return type(self).prepare is not Provider.prepare

    def close(self) -> None:
        """Give back threads and device objects."""


def _differs(called: Callable[..., Any], op: Op) -> str | None:
    """In what way a function can't be called with an op's arguments by name."""
    try:
        inspect.signature(called).bind(**op.parameters)
    except TypeError:
        takes = ", ".join(map(str, inspect.signature(called).parameters.values()))
        return f"takes ({takes}); it is called by name with {', '.join(op.parameters)}"
    return None


def definition(op: Op) -> Function:
    """An op's definition as a kernel over Tensors."""
    return lambda **call: held(op.reference(**{n: bare(v) for n, v in call.items()}))
