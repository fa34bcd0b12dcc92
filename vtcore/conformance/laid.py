"""The arguments of a call laid out in memory as Tensors, with bytes around and between that a kernel may neither read nor write."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore import tensor
from vtcore.conformance.case import Case
from vtcore.conformance.guards import Guarded
from vtcore.memory import HOST, Held
from vtcore.op import Call
from vtcore.quant.blocks import Blocks
from vtcore.storage import Storage
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]


class Laid:
    """An array as a Tensor of the same strides over a storage of its own. Between what it shows lies NaN, or the smallest integer."""

    def __init__(self, value: Array | Blocks, pages: bool) -> None:
        array = np.ascontiguousarray(value.data) if isinstance(value, Blocks) else value
        self.dtype, self.shape = array.dtype, array.shape
        self.steps = tuple(s // array.itemsize for s in array.strides) if array.size else tensor.steps(array.shape)
        ends = sum((n - 1) * s for n, s in zip(array.shape, self.steps, strict=True)) + 1 if array.size else 0
        self.elements = max(array.shape[0] * self.steps[0], ends) if pages else ends
        self.guarded = Guarded(self.elements * array.itemsize)
        storage = Storage.holding(self.guarded.inside.nbytes, HOST, Held(self.guarded.inside, 0, None))
        self.tensor = Tensor(storage, value.shape, value.dtype, None if isinstance(value, Blocks) else self.steps)
        if pages:
            _by_pages(self.tensor)
        self.fill(value)

    def fill(self, value: Array | Blocks) -> None:
        """Other values of the same shape, in the same place."""
        array = value.data if isinstance(value, Blocks) else value
        self.before = np.full(self.elements, _poison(self.dtype), self.dtype)
        self._shown(self.before)[...] = array
        self.guarded.inside[...] = self.before.view(np.uint8)
        self.tensor.storage.wrote(HOST)

    def _shown(self, whole: Array) -> Array:
        """What the Tensor shows of such a storage."""
        size = whole.itemsize
        return np.ndarray(self.shape, whole.dtype, whole, 0, tuple(s * size for s in self.steps))

    def values(self) -> Array:
        """What the Tensor shows now, wherever it was written."""
        self.tensor.storage.at(HOST)
        return self._shown(self.guarded.inside.view(self.dtype))

    def overwritten(self) -> bool:
        """Whether what the Tensor shows is no longer what it was filled with: in any memory."""
        want = self._shown(self.before).tobytes()
        return any(self._shown(copy).tobytes() != want for copy in self._copies())

    def spilled(self) -> bool:
        """Whether bytes were changed that the Tensor doesn't show."""
        shown = self.before.copy()
        return not self.guarded.intact or any(self._hidden(shown, copy) for copy in self._copies())

    def _hidden(self, shown: Array, copy: Array) -> bool:
        whole = copy.copy()
        self._shown(whole)[...] = self._shown(shown)
        return whole.tobytes() != shown.tobytes()

    def _copies(self) -> list[Array]:
        """The storage's bytes as they are in each memory that has them."""
        storage, copies = self.tensor.storage, []
        for memory, held in storage.copies.items():
            host = self.guarded.inside if memory is HOST else np.empty(storage.nbytes, np.uint8)
            if memory is not HOST:
                memory.download(held, 0, host)
            if memory is HOST or storage.valid[memory].all():
                copies.append(host.view(self.dtype))
        return copies


class Arguments:
    """One call's arguments: arrays as Laid, anything else as it is."""

    def __init__(self, case: Case) -> None:
        self.op = case.op
        self.laid = {n: _laid(v, n in case.op.touches) for n, v in case.call.items()}

    def fill(self, call: Call) -> None:
        """Another call of the same shapes, in the same Tensors."""
        for name, laid in self.laid.items():
            _fill(laid, call[name])

    def tensors(self) -> Call:
        """As an op takes them."""
        return {n: _tensors(v) for n, v in self.laid.items()}

    def arrays(self) -> list[tuple[str, Laid]]:
        """Every array with the name of its argument."""
        return [(n, laid) for n, v in self.laid.items() for laid in _flat(v)]


def _laid(value: Any, pages: bool) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_laid(v, pages) for v in value)
    return Laid(value, pages) if isinstance(value, (np.ndarray, Blocks)) else value


def _fill(laid: Any, value: Any) -> None:
    if isinstance(laid, Laid):
        laid.fill(value)
    elif isinstance(laid, (list, tuple)):
        for part, v in zip(laid, value, strict=True):
            _fill(part, v)


def _tensors(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_tensors(v) for v in value)
    return value.tensor if isinstance(value, Laid) else value


def _flat(value: Any) -> list[Laid]:
    if isinstance(value, (list, tuple)):
        return [laid for v in value for laid in _flat(v)]
    return [value] if isinstance(value, Laid) else []


def _poison(dtype: np.dtype[Any]) -> Any:
    return {"i": lambda: np.iinfo(dtype).min, "u": lambda: 0, "b": lambda: False}.get(dtype.kind, lambda: np.nan)()


def _by_pages(paged: Tensor) -> None:
    """Each page has a truth of its own, as in a cache."""
    storage, rows = paged.storage, paged.shape[0]
    storage.rows, storage.written = rows, np.ones(rows, bool)
    storage.valid = {m: np.ones(rows, bool) for m in storage.valid}
