"""Kernels that are right, and do what no kernel may."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vtcore.conformance.case import cases
from vtcore.conformance.nulls.null import Array, Results, as_returned, has_results, null, rounds, several, tensors
from vtcore.memory import HOST
from vtcore.op import Call, Op
from vtcore.provider import Function, definition
from vtcore.quant.blocks import Blocks
from vtcore.tensor import Tensor, empty, of


def _aligned(results: Any) -> Results:
    """Results as a native kernel makes them: in room from the provider's memory."""
    made = []
    for result in several(results):
        made.append(empty(HOST, result.shape, result.dtype))
        made[-1].bare()[...] = result.bare()
    return made


@null("out_of_bounds", fits=has_results)
def writes_behind(op: Op) -> Function:
    """Right, and one element more behind each result."""
    return lambda **call: _spoiled(_aligned(definition(op)(**call)), lambda t: t.address + t.nbytes)


@null("out_of_bounds", fits=has_results)
def writes_before(op: Op) -> Function:
    """Right, and one element more before each result."""
    return lambda **call: _spoiled(_aligned(definition(op)(**call)), lambda t: t.address - t.dtype.itemsize)


def _spoiled(made: Results, where: Callable[[Any], int]) -> Any:
    for result in made:
        ctypes.memset(where(result), 0, 4)
    return as_returned(made)


@null("wrote_input")
def writes_input(op: Op) -> Function:
    """Right, and then it changes an argument that the op doesn't write."""

    def run(**call: Any) -> Any:
        results = definition(op)(**call)
        for name, value in tensors(call):
            if name not in op.writes and value.size:
                _flip(value)
                break
        return results

    return run


def _flip(value: Tensor) -> None:
    """Every bit of the first byte."""
    first = value.storage.copies[HOST].buffer
    first[:1] = ~first[:1]


def has_room(op: Op) -> bool:
    """Whether any result would fit into the memory of an argument."""
    return any(n.nbytes >= r.nbytes > 0 for c in cases(op) for r in several(op.reference(**c.call)) for n in _given(c.call))


def _given(call: Call) -> Iterator[Array | Blocks]:
    return (v for v in call.values() if isinstance(v, (np.ndarray, Blocks)))


@null("view_of_input", "wrong_value", fits=lambda op: has_results(op) and not op.writes and has_room(op))
def lends(op: Op) -> Function:
    """An argument's memory as the result, where it has room for one."""

    def run(**call: Any) -> Any:
        results = several(definition(op)(**call))
        for i, result in enumerate(results):
            lender = next((t for _, t in tensors(call) if t.storage.nbytes >= result.nbytes > 0), None)
            if lender is not None:
                results[i] = Tensor(lender.storage, result.shape, result.dtype)
        return as_returned(results)

    return run


@null("stateful", fits=rounds)
def leaks(op: Op) -> Function:
    """A little of the call before in every result."""
    right, before = definition(op), [0.0]

    def run(**call: Any) -> Any:
        results = several(right(**call))
        added, total = before[0], sum(float(np.nansum(np.where(np.isfinite(r.bare()), r.bare(), 0))) for r in results)
        before[0] = total % 1.0 + 0.5
        return as_returned([of((r.bare() * np.float32(1 + 1e-7 * round(4 * added))).astype(r.dtype)) for r in results])

    return run


@null("nondeterministic", "stateful", fits=rounds)
def noisy(op: Op) -> Function:
    """Right within the tolerance, and never the same."""
    right, rng = definition(op), np.random.default_rng(0)

    def run(**call: Any) -> Any:
        results = [r.bare() for r in several(right(**call))]
        return as_returned([of((r * (1 + rng.integers(-3, 4, r.shape) * 6e-8)).astype(np.float32)) for r in results])

    return run


@null("stateful", fits=has_results)
def same_room(op: Op) -> Function:
    """Right, and always in the same memory, so that a result doesn't outlive the next call."""
    right, rooms = definition(op), dict[Any, Results]()

    def run(**call: Any) -> Any:
        results = several(right(**call))
        made = rooms.setdefault(tuple((r.shape, r.dtype) for r in results), results)
        for room, result in zip(made, results, strict=True):
            room.bare()[...] = result.bare()
        return as_returned(made)

    return run


@null("wrong_shape", fits=has_results)
def another_shape(op: Op) -> Function:
    """An axis more."""
    return lambda **call: as_returned([of(r.bare()[None]) for r in several(definition(op)(**call))])


@null("wrong_dtype", fits=has_results)
def another_dtype(op: Op) -> Function:
    """Twice as wide."""
    return lambda **call: as_returned(
        [of(r.bare().astype(np.float64 if r.bare().dtype.kind == "f" else np.int64)) for r in several(definition(op)(**call))]
    )


@null("raised")
def raises(op: Op) -> Function:
    """An exception."""

    def run(**call: Any) -> Any:
        raise MemoryError("no room")

    return run
