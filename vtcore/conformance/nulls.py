"""Null kernels: generated for every op, they do nothing, or work only where somebody looks. A check that passes one is worth nothing.

Public benches of kernels have passed such ones: outputs so small that zeros are within an absolute tolerance (KernelBench, 2025)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtcore.conformance.case import cases
from vtcore.dispatch import definition
from vtcore.memory import HOST
from vtcore.op import Call, Op
from vtcore.provider import Function, Provider
from vtcore.quant.blocks import Blocks
from vtcore.tensor import Tensor, bare, empty, of

Array = np.ndarray[Any, Any]
Make = Callable[[Op], Function]
Results = list[Tensor]
FEW, MANY = 2, 60  # calls that are right, of kernels that then stop


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


def _filled(op: Op, call: Call, value: float) -> Any:
    """Results, and what the op writes, full of one value."""
    for name in op.writes:
        call[name].bare()[...] = value
    made = [of(_full(shape, dtype, value)) for shape, dtype in op.signature.shapes(op.validate(call))]
    return _as_returned(made)


def _full(shape: tuple[int, ...], dtype: np.dtype[Any], value: float) -> Array:
    return np.full(shape, 0 if dtype.kind != "f" and value != value else value, dtype)


def _as_returned(made: Results) -> Any:
    return None if not made else made[0] if len(made) == 1 else tuple(made)


def _several(results: Any) -> Results:
    return [] if results is None else list(results) if isinstance(results, tuple) else [results]


def _tensors(call: Call) -> Iterator[tuple[str, Tensor]]:
    for name, value in call.items():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, Tensor):
                yield name, part


def _arrays(call: Call) -> list[Array]:
    return [t.bare() for _, t in _tensors(call) if isinstance(t.dtype, np.dtype)]


@null("wrong_value")
def zeros(op: Op) -> Function:
    """Nothing but zeros."""
    return lambda **call: _filled(op, call, 0)


@null("wrong_value")
def ones(op: Op) -> Function:
    """Nothing but ones."""
    return lambda **call: _filled(op, call, 1)


@null("wrong_value")
def not_a_number(op: Op) -> Function:
    """Nothing but NaN; of integers zeros."""
    return lambda **call: _filled(op, call, np.nan)


@null("wrong_value")
def echo(op: Op) -> Function:
    """The first argument's values, as many as there is room for; what should be written is left as it is."""

    def run(**call: Any) -> Any:
        source = _arrays(call)[0].astype(np.float64).reshape(-1)
        source = source if source.size else np.zeros(1)
        with np.errstate(invalid="ignore"):
            made = [of(np.resize(source, s).astype(d).reshape(s)) for s, d in op.signature.shapes(op.validate(call))]
        return _as_returned(made)

    return run


@null("wrong_value", "stateful")
def one_behind(op: Op) -> Function:
    """A copy of the result before, if it was of this shape."""
    right, before = definition(op), list[Array]()

    def run(**call: Any) -> Any:
        kept = {n: call[n].bare().copy() for n in op.writes}
        now = [r.bare() for r in _several(right(**call))] + [call[n].bare().copy() for n in op.writes]
        for name, was in kept.items():
            call[name].bare()[...] = was
        last = list(before) if [b.shape for b in before] == [n.shape for n in now] else [np.zeros_like(n) for n in now]
        before[:] = now
        for name, values in zip(op.writes, last[len(op.signature.results) :], strict=True):
            call[name].bare()[...] = values
        return _as_returned([of(values.copy()) for values in last[: len(op.signature.results)]])

    return run


@null("stateful")
def cached(op: Op) -> Function:
    """What was computed when arguments first lay at these addresses."""
    right, known = definition(op), dict[Any, list[Array]]()

    def run(**call: Any) -> Any:
        key = tuple((t.address, t.shape) for _, t in _tensors(call))
        if key not in known:
            results = [r.bare().copy() for r in _several(right(**call))]
            known[key] = results + [call[n].bare().copy() for n in op.writes]
        for name, values in zip(op.writes, known[key][len(op.signature.results) :], strict=True):
            call[name].bare()[...] = values
        return _as_returned([of(values.copy()) for values in known[key][: len(op.signature.results)]])

    return run


def _right_while(op: Op, fine: Callable[[Call], bool]) -> Function:
    right = definition(op)
    return lambda **call: right(**call) if fine(call) else _filled(op, call, 0)


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
    return _right_while(op, lambda call: all(np.isfinite(a.astype(np.float32)).all() for a in _arrays(call) if a.dtype.kind not in "iub"))


@null("wrong_value")
def contiguous_only(op: Op) -> Function:
    """Right where every argument is contiguous."""
    return _right_while(op, lambda call: all(t.contiguous or not t.size for _, t in _tensors(call)))


def _aligned(results: Any) -> Results:
    """Results as a native kernel makes them: in room from the provider's memory."""
    made = []
    for result in _several(results):
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
    return _as_returned(made)


@null("wrote_input")
def writes_input(op: Op) -> Function:
    """Right, and then it changes an argument that the op doesn't write."""

    def run(**call: Any) -> Any:
        results = definition(op)(**call)
        for name, value in _tensors(call):
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
    return any(n.nbytes >= r.nbytes > 0 for c in cases(op) for r in _several(op.reference(**c.call)) for n in _given(c.call))


def _given(call: Call) -> Iterator[Array | Blocks]:
    return (v for v in call.values() if isinstance(v, (np.ndarray, Blocks)))


@null("view_of_input", "wrong_value", fits=lambda op: has_results(op) and not op.writes and has_room(op))
def lends(op: Op) -> Function:
    """An argument's memory as the result, where it has room for one."""

    def run(**call: Any) -> Any:
        results = _several(definition(op)(**call))
        for i, result in enumerate(results):
            lender = next((t for _, t in _tensors(call) if t.storage.nbytes >= result.nbytes > 0), None)
            if lender is not None:
                results[i] = Tensor(lender.storage, result.shape, result.dtype)
        return _as_returned(results)

    return run


@null("stateful", fits=rounds)
def leaks(op: Op) -> Function:
    """A little of the call before in every result."""
    right, before = definition(op), [0.0]

    def run(**call: Any) -> Any:
        results = _several(right(**call))
        added, total = before[0], sum(float(np.nansum(np.where(np.isfinite(r.bare()), r.bare(), 0))) for r in results)
        before[0] = total % 1.0 + 0.5
        return _as_returned([of((r.bare() * np.float32(1 + 1e-7 * round(4 * added))).astype(r.dtype)) for r in results])

    return run


@null("nondeterministic", "stateful", fits=rounds)
def noisy(op: Op) -> Function:
    """Right within the tolerance, and never the same."""
    right, rng = definition(op), np.random.default_rng(0)

    def run(**call: Any) -> Any:
        results = [r.bare() for r in _several(right(**call))]
        return _as_returned([of((r * (1 + rng.integers(-3, 4, r.shape) * 6e-8)).astype(np.float32)) for r in results])

    return run


@null("stateful", fits=has_results)
def same_room(op: Op) -> Function:
    """Right, and always in the same memory, so that a result doesn't outlive the next call."""
    right, rooms = definition(op), dict[Any, Results]()

    def run(**call: Any) -> Any:
        results = _several(right(**call))
        made = rooms.setdefault(tuple((r.shape, r.dtype) for r in results), results)
        for room, result in zip(made, results, strict=True):
            room.bare()[...] = result.bare()
        return _as_returned(made)

    return run


@null("wrong_shape", fits=has_results)
def another_shape(op: Op) -> Function:
    """An axis more."""
    return lambda **call: _as_returned([of(r.bare()[None]) for r in _several(definition(op)(**call))])


@null("wrong_dtype", fits=has_results)
def another_dtype(op: Op) -> Function:
    """Twice as wide."""
    return lambda **call: _as_returned(
        [of(r.bare().astype(np.float64 if r.bare().dtype.kind == "f" else np.int64)) for r in _several(definition(op)(**call))]
    )


@null("raised")
def raises(op: Op) -> Function:
    """An exception."""

    def run(**call: Any) -> Any:
        raise MemoryError("no room")

    return run


def _shapes(call: Call) -> str:
    return str([getattr(v, "shape", None) for v in map(bare, call.values())])
