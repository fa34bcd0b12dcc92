"""An op: a name, a signature, a NumPy definition, samples, a tolerance and inputs that must raise. Nothing here knows a provider."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.errors import OpError
from vtcore.signature import Signature, evaluate

Array = Any  # a bare ndarray (or Blocks) outside an engine, a Tensor inside: to a model it has shape, dtype, reshape and slicing
Call = dict[str, Any]  # one call's arguments by name
Samples = Callable[[np.random.Generator], Iterator[Call]]
Errors = Callable[[], Iterator[tuple[Call, str]]]  # (a call that must raise OpError, words that its message must hold)
Check = Callable[..., str | None]  # what is wrong with a call's values beyond its signature, or None
Rows = Callable[..., "np.ndarray[Any, Any] | None"]  # None: the host can't tell, so all
REGISTRY: dict[str, Op] = {}
HOME = Path(__file__).parents[1]
LENGTH = 64  # terms of a sum that a tolerance is stated for
SCALARS = {"bool": (bool,), "int": (int,), "float": (float, int), "str": (str,)}  # a parameter's annotation -> what may stand there


@dataclass(frozen=True)
class Tolerance:
    """How far a kernel may be from the definition: |got - want| <= atol + bound * (largest |want| of the same row). Integers: equal.

    `rtol` is by the dtype of the float arguments (the widest step of rounding that takes part); `source` says where it comes from.
    `over` names the axis that is summed over: rtol is for LENGTH terms, and of more the bound grows with the square root of their number,
    as rounding errors of either sign do (Higham and Mary, A new approach to probabilistic rounding error analysis, 2019)."""

    rtol: Mapping[str, float]
    source: str
    atol: float = 1e-30
    over: str = ""
    where: str = field(default="", compare=False, repr=False)  # file:line that sets it; found out by itself

    def __post_init__(self) -> None:
        caller = sys._getframe(2)  # this, the __init__ that dataclass makes, and who calls it
        path = Path(caller.f_code.co_filename)
        shown = path.relative_to(HOME) if path.is_relative_to(HOME) else path
        object.__setattr__(self, "where", self.where or f"{shown.as_posix()}:{caller.f_lineno}")

    def of(self, dtype: str) -> float:
        """The relative bound for float arguments of this dtype and sums of up to LENGTH terms."""
        return self.rtol.get(dtype, self.rtol["float32"])

    def bound(self, dtype: str, sizes: Mapping[str, Any]) -> float:
        """The relative bound for a call with axes of these sizes."""
        return self.of(dtype) * max(1.0, evaluate(self.over, sizes) / LENGTH) ** 0.5 if self.over else self.of(dtype)


FLOAT32_ROW = Tolerance({"float32": 1e-5}, "float32 arithmetic in another order: about 80 ulp of the largest value of the row")


@dataclass(frozen=True, eq=False)
class Op:
    """The contract that every kernel of this op is held to."""

    name: str
    signature: Signature
    reference: Callable[..., Any]
    samples: Samples
    tolerance: Tolerance
    errors: Errors
    check: Check | None
    writes: tuple[str, ...]  # the arguments that it changes in place: caches and states, nothing else
    touches: Mapping[str, Rows]  # of an argument in pages or slots: the rows that a call reads or writes
    parameters: Mapping[str, Any] = field(repr=False)  # name -> default, or inspect.Parameter.empty
    scalars: Mapping[str, str] = field(repr=False, default_factory=dict)  # name -> a key of SCALARS

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return RUNNER.get()(self, self.bind(*args, **kwargs))

    def bind(self, *args: Any, **kwargs: Any) -> Call:
        """Arguments by name, defaults filled, so that kernels and guards see one shape of call."""
        call = dict(zip(self.parameters, args, strict=False))
        if not kwargs and len(args) == len(self.parameters):
            return call
        if len(args) > len(self.parameters) or not call.keys().isdisjoint(kwargs) or not kwargs.keys() <= self.parameters.keys():
            raise self._misnamed(args, kwargs)
        call.update(kwargs)
        if len(call) < len(self.parameters):
            for name, default in self.parameters.items():
                if name not in call:
                    if default is inspect.Parameter.empty:
                        raise self._misnamed(args, kwargs)
                    call[name] = default
        return call

    def _misnamed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> OpError:
        required = [n for n, d in self.parameters.items() if d is inspect.Parameter.empty]
        optional = [f"{n}={d}" for n, d in self.parameters.items() if d is not inspect.Parameter.empty]
        got = f"{len(args)} positional and {', '.join(kwargs) or 'no named'} arguments"
        return OpError(f"{self.name} takes {', '.join(required + optional)}; it was given {got}")

    def validate(self, call: Call) -> dict[str, Any]:
        """The sizes of the call's axes; OpError where it breaks the signature or the op's own rules."""
        sizes = self.signature.bind(self.name, call)
        for name, kind in self.scalars.items():
            value = call[name]
            if not isinstance(value, SCALARS[kind]) or isinstance(value, bool) != (kind == "bool"):
                raise OpError(f"{self.name}: {name} is {type(value).__name__} {value!r:.40}; it must be a Python {kind}")
        sizes.update((n, v) for n, v in call.items() if type(v) is int)  # so that a result's axis may be a number such as k
        if self.check is not None and (wrong := self.check(**call)):
            raise OpError(f"{self.name}: {wrong}")
        return sizes


def run_definition(op: Op, call: Call) -> Any:
    """What an op does outside an engine: check the call, then run the definition on the arrays."""
    op.validate(call)
    return op.reference(**call)


RUNNER: ContextVar[Callable[[Op, Call], Any]] = ContextVar("runner", default=run_definition)


def _scalars(reference: Callable[..., Any]) -> dict[str, str]:
    kinds = {n: getattr(p.annotation, "__name__", str(p.annotation)) for n, p in inspect.signature(reference).parameters.items()}
    return {n: kind for n, kind in kinds.items() if kind in SCALARS}


def op(
    signature: str,
    *,
    samples: Samples,
    errors: Errors,
    tolerance: Tolerance = FLOAT32_ROW,
    check: Check | None = None,
    writes: tuple[str, ...] = (),
    touches: Mapping[str, Rows] | None = None,
) -> Callable[[Callable[..., Any]], Op]:
    """Register the decorated NumPy function as an op's definition. Its docstring is the op's documentation.

    Infinities and NaN are values here like others: the definition runs without floating-point warnings."""

    def register(reference: Callable[..., Any]) -> Op:
        quiet = np.errstate(all="ignore")(reference)
        parameters = {n: p.default for n, p in inspect.signature(reference).parameters.items()}
        arrays, scalars = Signature.parse(signature), _scalars(reference)
        spec = Op(reference.__name__, arrays, quiet, samples, tolerance, errors, check, writes, touches or {}, parameters, scalars)
        if unknown := (set(arrays.arguments) | arrays.unbound() | set(writes) | set(spec.touches)) - set(parameters):
            raise ValueError(f"op {spec.name!r} declares {', '.join(sorted(unknown))}, which its function doesn't take")
        if REGISTRY.setdefault(spec.name, spec) is not spec:
            other = REGISTRY[spec.name].reference.__module__
            raise ValueError(f"op {spec.name!r} is defined twice: in {reference.__module__} and in {other}")
        spec.__dict__["__doc__"] = reference.__doc__
        return spec

    return register
