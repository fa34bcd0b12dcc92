"""A case's twin: the same shapes, strides and integers with other values, as likely to break a kernel and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.judge import Answer
from vtcore.conformance.layout import like
from vtcore.conformance.steady import steady
from vtcore.errors import OpError
from vtcore.op import Call
from vtcore.quant.blocks import Blocks

Array = np.ndarray[Any, Any]
TRIES = 3
SMALLEST = 0.5  # of a value's size: what is in [0, 1], negative, zero or infinite stays so


def twin(case: Case) -> Case | None:
    """The same case with each float made smaller by a factor of its own in [0.5, 1), and quantised blocks in another order; where it holds
    no floats, with other integers.

    None where the op takes none of these, where they give the same results, or where such values say nothing of a kernel."""
    for call in _candidates(case):
        other = replace(case, call=call)
        if _taken(other) and _differs(case, other) and steady(other):
            return other
    return None


def alone(case: Case, other: Case) -> tuple[str, Case] | None:
    """The case with one argument of its twin, and its name: a kernel that remembers may look at some arguments and not at others.

    Each case takes the next argument. None where the op doesn't take the call, or where it says nothing of a kernel."""
    changed = [n for n, v in other.call.items() if _bytes(v) != _bytes(case.call[n])]
    if len(changed) < 2:
        return None
    name = changed[case.number % len(changed)]
    mixed = replace(case, call=case.call | {name: other.call[name]})
    return (name, mixed) if _taken(mixed) and steady(mixed) else None


def _candidates(case: Case) -> Iterator[Call]:
    for attempt in range(TRIES if _floats(case) else 0):
        rng = np.random.default_rng([case.seed & 0xFFFFFFFF, case.number, 2, attempt])
        yield {n: _each(v, lambda a, r=rng: _smaller(r, a)) for n, v in case.call.items()}
    yield {n: _each(v, _turned) for n, v in case.call.items()}
    for name in case.op.signature.arguments:
        for change in (_turned, _less, _more):
            yield case.call | {name: _each(case.call[name], change)}


def _differs(case: Case, other: Case) -> bool:
    """Whether another call gives other results: then a kernel that goes by the first is seen."""
    if all(_bytes(case.call[n]) == _bytes(v) for n, v in other.call.items()):
        return False
    return _floats(case) or Answer(case.op, case.call).bits() != Answer(other.op, other.call).bits()


def _floats(case: Case) -> bool:
    return any(isinstance(v, np.ndarray) and v.size and _is_float(v) for v in case.call.values())


def _is_float(array: Array) -> bool:
    return array.dtype.kind not in "iub"


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_each(v, change) for v in value)
    return change(value) if isinstance(value, (np.ndarray, Blocks)) else value


def _smaller(rng: np.random.Generator, value: Any) -> Any:
    if isinstance(value, Blocks):
        return _shuffled(value)
    if not _is_float(value):
        return value
    out = like(value)
    out[...] = value * rng.uniform(SMALLEST, 1, value.shape).astype(np.float32)
    return out


def _shuffled(value: Blocks) -> Blocks:
    """The same blocks, the last one first."""
    whole = value.data.reshape(-1, value.dtype.nbytes)[::-1]
    return Blocks(whole.reshape(value.data.shape).copy(), value.dtype)


def _turned(value: Any) -> Any:
    if isinstance(value, Blocks):
        return Blocks(value.data[::-1].copy(), value.dtype)
    if value.ndim == 0:
        return value
    out = like(value)
    out[...] = value[::-1]
    return out


def _less(value: Any) -> Any:
    return value if isinstance(value, Blocks) or _is_float(value) or value.dtype.kind == "b" else np.maximum(value, 1) - value.dtype.type(1)


def _more(value: Any) -> Any:
    return value if isinstance(value, Blocks) or _is_float(value) or value.dtype.kind == "b" else value + value.dtype.type(1)


def _taken(case: Case) -> bool:
    try:
        case.op.validate(case.call)
    except OpError:
        return False
    return True


def _bytes(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_bytes(v) for v in value]
    return value.data.tobytes() if isinstance(value, Blocks) else value.tobytes() if isinstance(value, np.ndarray) else value
