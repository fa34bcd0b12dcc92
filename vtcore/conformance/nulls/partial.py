"""Null kernels that are right only where, or as long as, somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vtcore.conformance.case import cases
from vtcore.conformance.nulls.null import Array, arrays, as_returned, filled, has_floats, null, several, tensors
from vtcore.op import Call, Op
from vtcore.provider import Function, definition
from vtcore.tensor import bare, of

FEW, MANY = 2, 60  # calls that are right, of kernels that then stop


@null("wrong_value", "stateful")
def one_behind(op: Op) -> Function:
    """A copy of the result before, if it was of this shape."""
    right, before = definition(op), list[Array]()

    def run(**call: Any) -> Any:
        kept = {n: call[n].bare().copy() for n in op.writes}
        now = [r.bare() for r in several(right(**call))] + [call[n].bare().copy() for n in op.writes]
        for name, was in kept.items():
            call[name].bare()[...] = was
        last = list(before) if [b.shape for b in before] == [n.shape for n in now] else [np.zeros_like(n) for n in now]
        before[:] = now
        for name, values in zip(op.writes, last[len(op.signature.results) :], strict=True):
            call[name].bare()[...] = values
        return as_returned([of(values.copy()) for values in last[: len(op.signature.results)]])

    return run


@null("stateful")
def cached(op: Op) -> Function:
    """What was computed when arguments first lay at these addresses."""
    right, known = definition(op), dict[Any, list[Array]]()

    def run(**call: Any) -> Any:
        key = tuple((t.address, t.shape) for _, t in tensors(call))
        if key not in known:
            results = [r.bare().copy() for r in several(right(**call))]
            known[key] = results + [call[n].bare().copy() for n in op.writes]
        for name, values in zip(op.writes, known[key][len(op.signature.results) :], strict=True):
            call[name].bare()[...] = values
        return as_returned([of(values.copy()) for values in known[key][: len(op.signature.results)]])

    return run


def _right_while(op: Op, fine: Callable[[Call], bool]) -> Function:
    right = definition(op)
    return lambda **call: right(**call) if fine(call) else filled(op, call, 0)


@null("stateful", "wrong_value")
def first_calls(op: Op) -> Function:
    """Right in the first few calls."""
    left = iter(range(FEW))
    return _right_while(op, lambda call: next(left, None) is not None)


@null("stateful", "wrong_value")
def many_calls(op: Op) -> Function:
    """Right in the first many calls."""
    left = iter(range(MANY))
    return _right_while(op, lambda call: next(left, None) is not None)


@null("wrong_value")
def listed_shapes(op: Op) -> Function:
    """Right on the shapes of the op's samples."""
    known = {_shapes(case.call) for case in cases(op)}
    return _right_while(op, lambda call: _shapes(call) in known)


@null("wrong_value", fits=has_floats)
def finite_only(op: Op) -> Function:
    """Right where no argument holds NaN or an infinity."""
    return _right_while(op, lambda call: all(np.isfinite(a.astype(np.float32)).all() for a in arrays(call) if a.dtype.kind not in "iub"))


@null("wrong_value")
def contiguous_only(op: Op) -> Function:
    """Right where every argument is contiguous."""
    return _right_while(op, lambda call: all(t.contiguous or not t.size for _, t in tensors(call)))


def _shapes(call: Call) -> str:
    return str([getattr(v, "shape", None) for v in map(bare, call.values())])
