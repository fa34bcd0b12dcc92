"""What a call must do at least: bytes that it reads and writes, and floating-point operations where they are what an op is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vtcore.bench.op_calls import arrays_of
from vtcore.op import Call, Op
from vtcore.ops.attention import entries

Array = np.ndarray[Any, Any]


def nbytes(op: Op, call: Call) -> int:
    """Bytes of the arrays that a call reads, once each and as they are stored, and of its results. Of pages and slots those that it
    touches, of experts those that it goes to, of a table the rows that it looks up; what it changes in place is read and written."""
    results = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in op.signature.shapes(op.validate(call)))
    return results + sum(_read(op, name, value, call) * (1 + (name in op.writes)) for name, value in call.items())


def _read(op: Op, name: str, value: Any, call: Call) -> int:
    size = sum(int(a.nbytes) for a in arrays_of(value))
    rows = max(int(value.shape[0]), 1) if hasattr(value, "shape") and value.shape else 1
    if name in op.touches and (touched := op.touches[name](**call)) is not None:
        return size // rows * len(touched)
    if size and op.signature.arguments[name].many:
        return size // len(value) * len(np.unique(call["ids"]))
    return size // rows * int(np.size(call["ids"])) if op.name in ("embedding", "look_up") and name == "table" else size


def flops(op: Op, call: Call) -> int | None:
    """A product and a sum are two; None for ops whose time is that of their memory, and for those that compute with integers."""
    return COUNTS[op.name](**call) if op.name in COUNTS else None


def _linear(x: Array, weight: Any, **_: Any) -> int:
    """2 rows N K."""
    return 2 * int(np.prod(x.shape[:-1])) * int(np.prod(weight.shape))


def _per_head(x: Array, weight: Array, **_: Any) -> int:
    """2 T H A B."""
    return 2 * len(x) * int(np.prod(weight.shape))


def _experts(ids: Array, gate: Any, up: Any, down: Any, **_: Any) -> int:
    """2 for each weight of each expert that a token goes to."""
    return 2 * ids.size * sum(int(np.prod(arrays_of(m[0])[0].shape)) for m in (gate, up, down) if m is not None)


def _paged_attention(
    q: Array, k_pages: Array, v_pages: Array, starts: Array, lengths: Array, until: Array, window: int, chunk: int, chosen: Any, **_: Any
) -> int:
    """2 Hq (D + Dv) for each entry that each token sees."""
    seen = 0
    for r, length in enumerate(lengths):
        for t in range(starts[r], starts[r + 1]):
            index = length - starts[r + 1] + t
            seen += len(entries(index, until[t], window, chunk, None if chosen is None else chosen[t]))
    return 2 * int(q.shape[1]) * int(k_pages.shape[-1] + v_pages.shape[-1]) * seen


def _attention(q: Array, v: Array, starts: Array, **_: Any) -> int:
    """2 H (D + Dv) for each pair of tokens of a run."""
    return 2 * int(q.shape[1]) * int(q.shape[-1] + v.shape[-1]) * int((np.diff(starts).astype(np.int64) ** 2).sum())


COUNTS: dict[str, Callable[..., int]] = {
    "linear": _linear,
    "per_head": _per_head,
    "experts": _experts,
    "paged_attention": _paged_attention,
    "attention": _attention,
}
