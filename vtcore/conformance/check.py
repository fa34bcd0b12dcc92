"""A provider against the ops' definitions: each sample of each op is run by both, and everything that a call may change is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.conformance.case import Case, Laid, as_tensors, cases, laid
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError, DeclinedError
from vtcore.op import REGISTRY, Call, Op
from vtcore.provider import Function, Provider
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
Outcome = Literal["pass", "fail", "declined", "error"]


@dataclass(frozen=True)
class Difference:
    """The element that is nearest to its bound, or farthest over it."""

    what: str  # "result", "result 1" or the name of a written argument
    index: tuple[int, ...]
    got: Any
    want: Any
    error: float  # absolute
    bound: float

    @property
    def relative(self) -> float:
        """The error by the wanted value's magnitude."""
        return self.error / abs(float(self.want)) if self.want else float(self.error > 0) * np.inf

    @property
    def ulps(self) -> float:
        """The error in units of the wanted value's last place."""
        return float(self.error / np.spacing(abs(np.float32(self.want))))

    def __str__(self) -> str:
        measures = f"off by {self.error:.3g} ({self.relative:.3g} relative, {self.ulps:.3g} ulp); allowed {self.bound:.3g}"
        return f"{self.what}{list(self.index)} is {self.got}, the definition gives {self.want}: {measures}"


@dataclass(frozen=True)
class Verdict:
    """What came of one case on one provider."""

    case: Case
    provider: str
    outcome: Outcome
    reason: str = ""  # of anything but a pass, in words
    worst: Difference | None = None

    def __str__(self) -> str:
        return f"{self.outcome:8s} {self.provider} {self.case.label} {self.case}" + (f"\n    {self.reason}" if self.reason else "")


class Unheld(Dispatcher):
    """Takes any result: judging it is the check's own work."""

    def call(self, provider: Provider, op: Op, function: Function, call: Call) -> Any:
        """What the function returns."""
        return function(**call)


def check(provider: Provider, ops: Iterable[str] | None = None, seed: int = 0) -> Iterator[Verdict]:
    """Every sample of the named ops (None: of all) on a provider. ArgumentError where there is no such op."""
    for name in sorted(REGISTRY) if ops is None else ops:
        if name not in REGISTRY:
            raise ArgumentError(f"there is no op {name!r}; there are {', '.join(sorted(REGISTRY))}")
        for case in cases(REGISTRY[name], seed):
            yield run(provider, case)


def run(provider: Provider, case: Case) -> Verdict:
    """One case: the provider's kernel on Tensors, the definition on copies of the same arrays."""
    arguments, dispatcher = laid(case), Unheld([provider], strict=True)
    try:
        with dispatcher:
            results = case.op(**{n: as_tensors(v) for n, v in arguments.items()})
        return _judged(provider, case, arguments, results)
    except DeclinedError:
        return Verdict(case, provider.name, "declined", next(iter(dispatcher.declines)).reason)
    except Exception as error:  # a kernel may raise anything; a check goes on with the next case
        return Verdict(case, provider.name, "error", f"{type(error).__name__}: {error}")


def _judged(provider: Provider, case: Case, arguments: dict[str, Any], results: Any) -> Verdict:
    copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in case.call.items()}
    wanted = _several(case.op.reference(**copies))
    if wrong := _misshapen(_several(results), wanted, arguments) or _overwritten(case.op, arguments):
        return Verdict(case, provider.name, "fail", wrong)
    pairs = [(_name(i, len(wanted)), r.numpy(), w) for i, (r, w) in enumerate(zip(_several(results), wanted, strict=True))]
    pairs += [(n, arguments[n].tensor.numpy(), copies[n]) for n in case.op.writes]
    found = [d for what, got, want in pairs if (d := difference(case.op, what, got, want, _dtype(case))) is not None]
    worst = max(found, key=lambda d: d.error / max(d.bound, 1e-300), default=None)
    if worst is None or worst.error <= worst.bound:
        return Verdict(case, provider.name, "pass", worst=worst)
    return Verdict(case, provider.name, "fail", f"{worst}\n    {_source(case.op)}", worst)


def difference(op: Op, what: str, got: Array, want: Array, dtype: str) -> Difference | None:
    """The worst element of an array against the op's tolerance; None where there is none. NaN and infinities must be the same."""
    if not want.size:
        return None
    g, w = got.astype(np.float64), want.astype(np.float64)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.where(np.isfinite(g) & np.isfinite(w), np.abs(g - w), np.inf))
    bound = _bounds(op, w, dtype) if want.dtype.kind not in "iub" else np.zeros(w.shape)
    index = np.unravel_index(np.argmax(error / np.maximum(bound, 1e-300)), w.shape)
    return Difference(what, tuple(int(i) for i in index), got[index], want[index], float(error[index]), float(bound[index]))


def _bounds(op: Op, want: Array, dtype: str) -> Array:
    sizes = np.where(np.isfinite(want), np.abs(want), 0)
    largest = sizes.max(-1, keepdims=True) if want.ndim else sizes
    return np.broadcast_to(op.tolerance.atol + op.tolerance.of(dtype) * largest, want.shape)


def _misshapen(results: list[Any], wanted: list[Array], arguments: dict[str, Any]) -> str | None:
    if len(results) != len(wanted):
        return f"{len(results)} results; the op has {len(wanted)}"
    storages = {id(a.tensor.storage) for a in arguments.values() if isinstance(a, Laid)}
    for i, (got, want) in enumerate(zip(results, wanted, strict=True)):
        name = _name(i, len(wanted))
        if not isinstance(got, Tensor):
            return f"{name} is {type(got).__name__}; it must be a Tensor"
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            return f"{name} is {got.dtype}{list(got.shape)}; it must be {want.dtype}{list(want.shape)}"
        if not got.contiguous and want.size:
            return f"{name} has strides {list(got.strides)}; a result must be contiguous"
        if id(got.storage) in storages:
            return f"{name} lies in an argument's storage; a result must be fresh"
    return None


def _overwritten(op: Op, arguments: dict[str, Any]) -> str | None:
    changed = [n for n, a in arguments.items() if isinstance(a, Laid) and a.changed(n in op.writes)]
    return f"bytes of {', '.join(changed)} were changed that the op doesn't write" if changed else None


def _several(results: Any) -> list[Any]:
    return [] if results is None else list(results) if isinstance(results, tuple) else [results]


def _name(i: int, n: int) -> str:
    return "result" if n == 1 else f"result {i}"


def _dtype(case: Case) -> str:
    """The float dtype of a call's arrays that holds the least."""
    names = {str(v.dtype) for v in case.call.values() if isinstance(v, np.ndarray)}
    return next((n for n in ("bfloat16", "float16") if n in names), "float32")


def _source(op: Op) -> str:
    return f"the bound is set by the tolerance of {op.name} in {op.reference.__module__}: {op.tolerance.source}"
