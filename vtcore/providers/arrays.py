"""A provider whose kernels are plain functions of NumPy arrays: the shortest way to test a kernel of another project.

    from vtcore.providers.arrays import kernel

    @kernel("rms_norm")
    def my_rms_norm(x, weight, eps):
        return ...  # an array; of several results a tuple

A function takes the op's arguments by name, arrays as ndarrays (quantised ones as Blocks). It may leave out those that have a default, or
may be None: a call that gives them is declined. If it takes `out`, it is handed the array to write into (of several results a list),
which lies between guard bands, and returns nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError, ProviderError, nearest
from vtcore.memory import HOST
from vtcore.op import REGISTRY, Op
from vtcore.provider import Function, Guard, Provider
from vtcore.quant import FORMATS
from vtcore.quant.blocks import Blocks
from vtcore.tensor import Tensor, bare, empty, of

Array = np.ndarray[Any, Any]
OUT = "out"
FLOATS = ("float32", "float16", "bfloat16", "float64")
MARK = "vtcore_kernel"  # the attribute of a function that `kernel` marked


def kernel(op: str | Op, *, dtypes: Sequence[str] = (), declines: Guard | None = None) -> Callable[[Function], Function]:
    """Mark a function as a kernel of an op; `vtcore check ./file.py` finds all that are marked in a file.

    dtypes: decline calls with float or quantised arrays of other dtypes, such as "bfloat16". declines: a function of the same arguments as
    the op (as Tensors: shape, dtype, strides) that returns the reason why a call won't run, or None. ArgumentError where there is no such
    op or dtype."""
    found = _op(op)
    _check_dtypes(dtypes)

    def mark(function: Function) -> Function:
        setattr(function, MARK, (found, tuple(dtypes), declines))
        return function

    return mark


class Arrays(Provider):
    """A provider of functions of arrays."""

    def __init__(self, name: str) -> None:
        super().__init__(name, facts={"runs": "functions of NumPy arrays"})

    def kernel(self, op: Op | str, *, declines: Guard | None = None, dtypes: Sequence[str] = ()) -> Callable[[Function], Function]:
        """Register a function of arrays. Raises ProviderError for one that can't be called with the op's arguments."""
        op = _op(op)
        _check_dtypes(dtypes)
        add = super().kernel

        def register(function: Function) -> Function:
            taken = _parameters(self.name, op, function)
            guard = _guard(op, taken, tuple(dtypes), declines)
            add(op, declines=lambda **call: guard(call))(_on_tensors(op, function, taken))
            return function

        return register


def collected(source: Any, name: str) -> Arrays | None:
    """A provider of all functions of a module that `kernel` marked; None where there are none."""
    marked = [f for f in vars(source).values() if callable(f) and MARK in getattr(f, "__dict__", {})]
    if not marked:
        return None
    provider = Arrays(name)
    for function in dict.fromkeys(marked):
        op, dtypes, declines = getattr(function, MARK)
        provider.kernel(op, declines=declines, dtypes=dtypes)(function)
    return provider


def _op(op: str | Op) -> Op:
    import vtcore.ops  # noqa: F401  (registers the ops)

    if isinstance(op, Op):
        return op
    if op not in REGISTRY:
        raise ArgumentError(f"there is no op {op!r}{nearest(op, REGISTRY)}; there are {', '.join(sorted(REGISTRY))}")
    return REGISTRY[op]


def _check_dtypes(dtypes: Sequence[str]) -> None:
    """A name that is none would decline every call, and nothing would be checked."""
    if isinstance(dtypes, str):
        raise ArgumentError(f"dtypes is {dtypes!r}; it must be a list of names, such as [{dtypes!r}]")
    if wrong := [d for d in dtypes if d not in (*FLOATS, *FORMATS)]:
        hint = nearest(wrong[0], (*FLOATS, *FORMATS))
        raise ArgumentError(f"dtypes holds {wrong[0]!r}{hint}; there are {', '.join((*FLOATS, *FORMATS))}")


def _parameters(provider: str, op: Op, function: Function) -> list[str]:
    """The op's parameters that a function takes. What it leaves out must have a default, or be an array that may be None."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return [*op.parameters, *(n for n in parameters if n == OUT)]
    unknown = [n for n in parameters if n not in op.parameters and n != OUT]
    missing = [n for n in op.parameters if n not in parameters and not _may_lack(op, n)]
    if unknown or missing:
        wrong = f"takes {', '.join(unknown)}, which the op hasn't" if unknown else f"doesn't take {', '.join(missing)}"
        raise ProviderError(f"provider {provider!r}: the kernel of {op.name} {wrong}; the op's arguments are {', '.join(op.parameters)}")
    return list(parameters)


def _may_lack(op: Op, name: str) -> bool:
    argument = op.signature.arguments.get(name)
    return op.parameters[name] is not inspect.Parameter.empty or (argument is not None and argument.optional)


def _guard(op: Op, taken: list[str], dtypes: tuple[str, ...], declines: Guard | None) -> Callable[[dict[str, Any]], str | None]:
    def guard(call: dict[str, Any]) -> str | None:
        for name, value in call.items():
            default = op.parameters[name] if op.parameters[name] is not inspect.Parameter.empty else None
            if name not in taken and value is not default and value != default:
                return f"the kernel takes no {name}"
            if dtypes and isinstance(value, Tensor) and getattr(value.dtype, "kind", "f") not in "iub" and str(value.dtype) not in dtypes:
                return f"{name} is {value.dtype}; the kernel takes {' or '.join(dtypes)}"
        return declines(**call) if declines is not None else None

    return guard


def _on_tensors(op: Op, function: Function, taken: list[str]) -> Function:
    def run(**call: Any) -> Any:
        given = {n: bare(call[n]) for n in taken if n != OUT}
        if OUT not in taken:
            return _held(function(**given))
        outs = [empty(HOST, shape, dtype) for shape, dtype in op.signature.shapes(op.validate(call))]
        arrays = [out.bare() for out in outs]
        function(**given, out=arrays[0] if len(arrays) == 1 else arrays)
        return None if not outs else outs[0] if len(outs) == 1 else tuple(outs)

    return run


def _held(value: Any) -> Any:
    """Arrays as Tensors over the same bytes; what is no array goes through, for who judges it."""
    if isinstance(value, tuple):
        return tuple(_held(v) for v in value)
    return of(value) if isinstance(value, (np.ndarray, Blocks)) else value
