"""What is wrong with what a kernel did: shapes, dtypes, memory, then each value against the definition's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.guards import Outputs
from vtcore.conformance.laid import Arguments
from vtcore.conformance.verdict import Difference
from vtcore.memory import HOST
from vtcore.op import Call, Op
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
SMALLEST = 1.2e-38  # float32's smallest normal number: what is under it many processors flush to zero


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: a kind of verdict.KINDS, and words. `kind` is empty where nothing is."""

    kind: str
    reason: str = ""
    worst: Difference | None = None


class Answer:
    """What the definition gives for a call: results in order, and the arguments that it writes."""

    def __init__(self, op: Op, call: Call) -> None:
        copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in call.items()}
        self.results: list[Array] = several(op.reference(**copies))
        self.written: dict[str, Array] = {n: copies[n] for n in op.writes if copies[n] is not None}
        self.rtol = rtol_of(op, call)

    def bits(self) -> list[bytes]:
        """All of it, to compare with another."""
        return [a.tobytes() for a in (*self.results, *self.written.values())]

    @property
    def empty(self) -> bool:
        """Whether it holds nothing but zeros."""
        return not any(a.astype(np.float32).any() for a in (*self.results, *self.written.values()))


def judge(case: Case, answer: Answer, arguments: Arguments, results: Any, outputs: Outputs) -> Fault:
    """The first thing that is wrong with a call's results and with what it did to its arguments; else the worst difference."""
    given, names = several(results), result_names(answer.results)
    if fault := _misshapen(given, answer.results, names, arguments) or _spilled(case.op, arguments, outputs):
        return fault
    pairs = [(n, r.numpy(), w) for n, r, w in zip(names, given, answer.results, strict=True)]
    pairs += [(n, laid.values(), answer.written[n]) for n, laid in arguments.arrays() if n in answer.written]
    return compared(case.op, pairs, answer.rtol)


def compared(op: Op, pairs: Iterable[tuple[str, Array, Array]], rtol: float) -> Fault:
    """What is wrong with values, each array (its name, got, wanted) against the op's bound; else the worst difference."""
    pairs = list(pairs)
    found = [d for what, got, want in pairs if (d := difference(op, what, got, want, rtol)) is not None]
    worst = max(found, key=lambda d: d.share, default=None)
    if worst is not None and worst.error > worst.bound:
        return Fault("wrong_value", f"{worst}\n    {_source(op)}", worst)
    lost = next((words for what, got, want in pairs if (words := _lost(op, what, got, want))), "")
    return Fault("wrong_value" if lost else "", lost, worst)


def difference(op: Op, what: str, got: Array, want: Array, rtol: float) -> Difference | None:
    """The worst element of an array against a bound that is relative to the largest of its row; None where there is none.

    NaN and infinities must be the same."""
    if not want.size:
        return None
    g, w = got.astype(np.float64), want.astype(np.float64)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0, np.where(np.isfinite(g) & np.isfinite(w), np.abs(g - w), np.inf))
    bound = _bounds(w, rtol, op.tolerance.atol) if want.dtype.kind not in "iub" else np.zeros(w.shape)
    index = np.unravel_index(np.argmax(error / np.maximum(bound, 1e-300)), w.shape)
    return Difference(what, tuple(int(i) for i in index), got[index], want[index], float(error[index]), float(bound[index]))


def rtol_of(op: Op, call: Call) -> float:
    """The relative bound for a call: by the float dtype of its arrays that holds the least, and by how many terms it sums."""
    names = {str(v.dtype) for v in call.values() if isinstance(v, np.ndarray)}
    dtype = next((n for n in ("bfloat16", "float16") if n in names), "float32")
    return op.tolerance.bound(dtype, op.signature.bind(op.name, call) if op.tolerance.over else {})


def several(results: Any) -> list[Any]:
    """What an op or a kernel returned, as a list."""
    return [] if results is None else list(results) if isinstance(results, tuple) else [results]


def result_names(results: list[Any]) -> list[str]:
    """What the results are called in words."""
    return ["result"] if len(results) == 1 else [f"result {i}" for i in range(len(results))]


def _bounds(want: Array, rtol: float, atol: float) -> Array:
    sizes = np.where(np.isfinite(want), np.abs(want), 0)
    largest = sizes.max(-1, keepdims=True) if want.ndim else sizes
    return np.broadcast_to(atol + rtol * largest, want.shape)


def _lost(op: Op, what: str, got: Array, want: Array) -> str | None:
    """Zeros in most places where there should be none: no bound excuses that, however large one value of the row is."""
    there = np.isfinite(want.astype(np.float64)) & (np.abs(want.astype(np.float64)) > max(op.tolerance.atol, SMALLEST))
    lost = there & (got == 0)
    if want.dtype.kind in "iub" or 2 * lost.sum() <= there.sum():
        return None
    return f"{what} is 0 at {int(lost.sum())} of the {int(there.sum())} elements where the definition gives another number"


def _misshapen(given: list[Any], wanted: list[Array], names: list[str], arguments: Arguments) -> Fault | None:
    if len(given) != len(wanted):
        return Fault("wrong_shape", f"{len(given)} results; the op has {len(wanted)}")
    return next((f for n, g, w in zip(names, given, wanted, strict=True) if (f := _wrong_kind(n, g, w, arguments))), None)


def _wrong_kind(name: str, got: Any, want: Array, arguments: Arguments) -> Fault | None:
    if not isinstance(got, Tensor):
        return Fault("wrong_layout", f"{name} is {type(got).__name__}; it must be a Tensor")
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        kind = "wrong_dtype" if got.shape == want.shape else "wrong_shape"
        return Fault(kind, f"{name} is {got.dtype}{list(got.shape)}; it must be {want.dtype}{list(want.shape)}")
    if not got.contiguous and want.size:
        return Fault("wrong_layout", f"{name} has strides {list(got.strides)}; a result must be contiguous")
    if lender := next((n for n, laid in arguments.arrays() if _borrowed(got, laid.tensor, laid.guarded.overlaps)), None):
        return Fault("view_of_input", f"{name} lies in the memory of {lender}; a result must be fresh")
    return None


def _borrowed(got: Tensor, lent: Tensor, overlaps: Any) -> bool:
    if got.storage is lent.storage:
        return True
    held = got.storage.copies.get(HOST)
    return held is not None and bool(got.size) and overlaps(held.buffer)


def _spilled(op: Op, arguments: Arguments, outputs: Outputs) -> Fault | None:
    changed = [n for n, laid in arguments.arrays() if n not in op.writes and laid.overwritten()]
    if changed:
        return Fault("wrote_input", f"{', '.join(changed)} was changed; the op writes {', '.join(op.writes) or 'none of its arguments'}")
    beside = [n for n, laid in arguments.arrays() if laid.spilled()]
    if beside:
        return Fault("out_of_bounds", f"bytes beside or between the rows of {', '.join(beside)} were changed")
    return None if outputs.intact else Fault("out_of_bounds", "bytes beside a result were written")


def _source(op: Op) -> str:
    return f"the bound is set by the tolerance of {op.name}, {op.tolerance.where}: {op.tolerance.source}"
