"""What is wrong with what a kernel did: shapes, dtypes, memory, then each value against the definition's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.conformance.case import Case, Laid
from vtcore.conformance.verdict import Difference
from vtcore.op import Op
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: a kind of verdict.KINDS, and words. `kind` is empty where nothing is."""

    kind: str
    reason: str = ""
    worst: Difference | None = None


def judge(case: Case, arguments: dict[str, Any], results: Any) -> Fault:
    """The first thing that is wrong with a call's results and with what it did to its arguments; else the worst difference."""
    copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in case.call.items()}
    wanted, given = several(case.op.reference(**copies)), several(results)
    if fault := _misshapen(given, wanted, arguments) or _overwritten(case.op, arguments):
        return fault
    pairs = [(_name(i, len(wanted)), r.numpy(), w) for i, (r, w) in enumerate(zip(given, wanted, strict=True))]
    pairs += [(n, arguments[n].tensor.numpy(), copies[n]) for n in case.op.writes]
    found = [d for what, got, want in pairs if (d := difference(case.op, what, got, want, _dtype(case))) is not None]
    worst = max(found, key=lambda d: d.error / max(d.bound, 1e-300), default=None)
    if worst is None or worst.error <= worst.bound:
        return Fault("", worst=worst)
    return Fault("wrong_value", f"{worst}\n    {_source(case.op)}", worst)


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


def several(results: Any) -> list[Any]:
    """What an op or a kernel returned, as a list."""
    return [] if results is None else list(results) if isinstance(results, tuple) else [results]


def _bounds(op: Op, want: Array, dtype: str) -> Array:
    sizes = np.where(np.isfinite(want), np.abs(want), 0)
    largest = sizes.max(-1, keepdims=True) if want.ndim else sizes
    return np.broadcast_to(op.tolerance.atol + op.tolerance.of(dtype) * largest, want.shape)


def _misshapen(given: list[Any], wanted: list[Array], arguments: dict[str, Any]) -> Fault | None:
    if len(given) != len(wanted):
        return Fault("wrong_shape", f"{len(given)} results; the op has {len(wanted)}")
    storages = {id(a.tensor.storage) for a in arguments.values() if isinstance(a, Laid)}
    for i, (got, want) in enumerate(zip(given, wanted, strict=True)):
        name = _name(i, len(wanted))
        if not isinstance(got, Tensor):
            return Fault("wrong_layout", f"{name} is {type(got).__name__}; it must be a Tensor")
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            kind = "wrong_dtype" if got.shape == want.shape else "wrong_shape"
            return Fault(kind, f"{name} is {got.dtype}{list(got.shape)}; it must be {want.dtype}{list(want.shape)}")
        if not got.contiguous and want.size:
            return Fault("wrong_layout", f"{name} has strides {list(got.strides)}; a result must be contiguous")
        if id(got.storage) in storages:
            return Fault("view_of_input", f"{name} lies in an argument's storage; a result must be fresh")
    return None


def _overwritten(op: Op, arguments: dict[str, Any]) -> Fault | None:
    changed = [n for n, a in arguments.items() if isinstance(a, Laid) and a.changed(n in op.writes)]
    return Fault("wrote_input", f"bytes of {', '.join(changed)} were changed that the op doesn't write") if changed else None


def _name(i: int, n: int) -> str:
    return "result" if n == 1 else f"result {i}"


def _dtype(case: Case) -> str:
    """The float dtype of a call's arrays that holds the least."""
    names = {str(v.dtype) for v in case.call.values() if isinstance(v, np.ndarray)}
    return next((n for n in ("bfloat16", "float16") if n in names), "float32")


def _source(op: Op) -> str:
    return f"the bound is set by the tolerance of {op.name} in {op.reference.__module__}: {op.tolerance.source}"
