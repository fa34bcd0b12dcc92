"""What a null kernel is, the list of all, and what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.op import Call, Op
from vtcore.provider import Function, Provider
from vtcore.tensor import Tensor, of

Array = np.ndarray[Any, Any]
Make = Callable[[Op], Function]
Results = list[Tensor]


@dataclass(frozen=True)
class Null:
    """One way of doing nothing, and what a check must call it."""

    name: str
    kinds: frozenset[str]
    make: Make
    fits: Callable[[Op], bool]

    def provider(self, op: Op) -> Provider:
        """A provider with this kernel of the op alone."""
        provider = Provider(self.name)
        run = self.make(op)
        provider.kernel(op)(lambda **call: run(**call))
        return provider


NULLS: dict[str, Null] = {}


def null(*kinds: str, fits: Callable[[Op], bool] = lambda op: True) -> Callable[[Make], Make]:
    """Register what makes a null kernel of an op. `fits`: for which ops there is such a one."""

    def register(make: Make) -> Make:
        name = make.__name__
        NULLS[name] = Null(name, frozenset(kinds), make, fits)
        return make

    return register


def has_results(op: Op) -> bool:
    """Whether it returns anything, besides what it writes."""
    return bool(op.signature.results)


def has_floats(op: Op) -> bool:
    """Whether any argument is a float array."""
    return any(a.kind == "f" for a in op.signature.arguments.values())


def rounds(op: Op) -> bool:
    """Whether its results are floats that may be off by something."""
    return op.tolerance.of("float32") > 0 and all(r.dtype.kind == "f" for r in op.signature.results) and has_results(op)


def filled(op: Op, call: Call, value: float) -> Any:
    """Results, and what the op writes, full of one value."""
    for name in op.writes:
        written = call[name].bare()
        written[...] = 0 if written.dtype.kind in "iub" and value != value else value
    made = [of(_full(shape, dtype, value)) for shape, dtype in op.signature.shapes(op.validate(call))]
    return as_returned(made)


def _full(shape: tuple[int, ...], dtype: np.dtype[Any], value: float) -> Array:
    return np.full(shape, 0 if dtype.kind != "f" and value != value else value, dtype)


def as_returned(made: Results) -> Any:
    """A list as an op returns it."""
    return None if not made else made[0] if len(made) == 1 else tuple(made)


def several(results: Any) -> Results:
    """What an op returned, as a list."""
    return [] if results is None else list(results) if isinstance(results, tuple) else [results]


def tensors(call: Call) -> Iterator[tuple[str, Tensor]]:
    """Every array of a call with the name of its argument."""
    for name, value in call.items():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, Tensor):
                yield name, part


def arrays(call: Call) -> list[Array]:
    """The dense ones as ndarrays."""
    return [t.bare() for _, t in tensors(call) if isinstance(t.dtype, np.dtype)]
