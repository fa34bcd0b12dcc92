"""Real calls of ops, kept as files while a model runs: of each wanted op the first that differ in shapes, dtypes or numbers.

A step that is replayed makes no calls, but every step is run op by op the first time that its shapes are met: calls of other shapes are
never missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.saved import save
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError, nearest
from vtcore.memory import HOST
from vtcore.op import REGISTRY, Call, Op
from vtcore.tensor import Tensor
from vtcore.watched import wrapped

Array = np.ndarray[Any, Any]
MOST_BYTES = 64 << 20  # of a call's arrays
MOST_CASES = 1000  # of one op


class Harvest:
    """Up to wanted[op] calls of each op, as `directory/op-001.npz` and so on, with `about` in each.

    `kept` counts files by op, `notes` says what was left out and why. Of an array in pages or slots (a cache) a file holds those that the
    call reads or writes, under their own numbers; what is before them is zeros, and what is behind them is cut off."""

    def __init__(self, wanted: Mapping[str, int], directory: Path, about: Mapping[str, Any] | None = None) -> None:
        if unknown := sorted(set(wanted) - REGISTRY.keys()):
            hint = nearest(unknown[0], REGISTRY)
            raise ArgumentError(f"there is no op {unknown[0]!r} to capture{hint}; there are {', '.join(sorted(REGISTRY))}")
        if wrong := [f"{op}:{n}" for op, n in wanted.items() if not 1 <= n <= MOST_CASES]:
            raise ArgumentError(f"{wrong[0]}: of an op 1 to {MOST_CASES} calls can be captured")
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise ArgumentError(f"{directory} is there and not an empty directory; captured cases need one of their own")
        self.wanted, self.directory, self.about = dict(wanted), directory, dict(about or {})
        self.kept, self.notes = Counter[str](), list[str]()
        self._seen: set[Any] = set()

    @contextmanager
    def of(self, dispatcher: Dispatcher) -> Iterator[None]:
        """While open, calls that this dispatcher runs are kept. Open it before the dispatcher's own block."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with wrapped(dispatcher, run=lambda run: self._keeping(dispatcher, run)):
            yield

    def missing(self) -> list[str]:
        """A line for each op of which fewer calls came than were wanted."""
        lacking = [(op, n) for op, n in self.wanted.items() if self.kept[op] < n]
        return [f"captured {self.kept[op]} of {n} calls of {op}: no more came that differ in shapes or numbers" for op, n in lacking]

    def _keeping(self, dispatcher: Dispatcher, run: Callable[[Op, Call], Any]) -> Callable[[Op, Call], Any]:
        def looked_at(op: Op, call: Call) -> Any:
            if self.kept[op.name] < self.wanted.get(op.name, 0) and dispatcher.recorder is None:
                self._look(op, call)
            return run(op, call)

        return looked_at

    def _look(self, op: Op, call: Call) -> None:
        key = (op.name, *(_key(v) for v in call.values()))
        if key in self._seen:
            return
        self._seen.add(key)
        rows = _rows(op, call)
        if (nbytes := _nbytes(call, rows)) > MOST_BYTES:
            self.notes.append(f"a call of {op.name} takes {nbytes >> 20} MiB and was not captured: {MOST_BYTES >> 20} MiB are allowed")
            return
        arrays = {n: _cut(v, *rows[n]) if n in rows else _bare(v) for n, v in call.items()}
        case = Case(op, arrays, 0, self.kept[op.name] + 1, "saved")
        save(case, self.directory / f"{op.name}-{case.number:03}.npz", self.about)
        self.kept[op.name] += 1


def parse(texts: Iterable[str]) -> dict[str, int]:
    """`rms_norm:5` as {"rms_norm": 5}. Raises ArgumentError."""
    wanted: dict[str, int] = {}
    for text in texts:
        op, _, count = text.partition(":")
        if not count.isascii() or not count.isdigit() or op in wanted:
            raise ArgumentError(f"{text!r} to capture; write OP:N, such as rms_norm:5, and each op once")
        wanted[op] = int(count)
    return wanted


def _key(value: Any) -> Any:
    """What makes a call another one: shapes, dtypes, strides, numbers; not what arrays hold."""
    if isinstance(value, Tensor):
        return (value.shape, str(value.dtype), value.strides)
    return tuple(map(_key, value)) if isinstance(value, (list, tuple)) else value


def _rows(op: Op, call: Call) -> dict[str, tuple[Array, int]]:
    """Of arguments in pages or slots: the rows that the call touches, and how many rows to keep of it and of those beside it."""
    touched = {n: _touched(op, n, call) for n in op.touches if isinstance(call[n], Tensor)}
    axis = {n: op.signature.arguments[n].axes[0] for n in touched}
    last = {n: int(rows.max(initial=0)) + 1 for n, rows in touched.items()}
    return {n: (rows, max(last[m] for m in touched if axis[m] == axis[n])) for n, rows in touched.items()}


def _touched(op: Op, name: str, call: Call) -> Array:
    numbers = {n: v.numpy() if isinstance(v, Tensor) and getattr(v.dtype, "kind", "") == "i" else v for n, v in call.items()}
    rows = op.touches[name](**numbers)
    return np.arange(call[name].shape[0]) if rows is None else rows


def _nbytes(call: Call, rows: Mapping[str, tuple[Array, int]]) -> int:
    sizes = {n: sum(t.nbytes for t in _tensors(v)) for n, v in call.items()}
    return sum(size * rows[n][1] // max(call[n].shape[0], 1) if n in rows else size for n, size in sizes.items())


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [v for v in value if isinstance(v, Tensor)] if isinstance(value, (list, tuple)) else []


def _bare(value: Any) -> Any:
    """What it holds, seen on the host; scalars as they are."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_bare, value))
    return value.numpy() if isinstance(value, Tensor) else value


def _cut(value: Tensor, rows: Array, count: int) -> Array:
    """The first `count` rows; those that aren't named are zeros."""
    value.storage.at(HOST, rows)
    whole: Array = value.bare()[:count]
    out: Array = np.zeros_like(whole, order="K")
    out[rows] = whole[rows]
    return out
