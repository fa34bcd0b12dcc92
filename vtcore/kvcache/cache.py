"""What layers keep between forwards. A layer declares it; layers that keep it the same way share a group, and a group has one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from vtcore.errors import ArgumentError
from vtcore.signature import FLOATS
from vtcore.tensor import Tensor, zeros

Shapes = Mapping[str, tuple[int, ...]]
Array = tuple[tuple[int, ...], np.dtype[Any]]  # the shape of what is kept of one token, or of one request, and its dtype
Key = tuple[int, str]  # a layer's number and the name under which it declared a cache
Order = tuple[int, ...]
Layout = Callable[[str, tuple[int, ...]], Order | None]  # (array's name, its shape) -> how its axes lie in memory, slowest first


@dataclass(frozen=True)
class Paged:
    """One entry for every `every` tokens, in pages; with a window, or with chunks, old pages may be given back. `of`: whose tokens."""

    shapes: Shapes
    window: int = 0  # a token looks at so many, itself the last of them
    every: int = 1
    of: str = "text"  # or "encoder": then the entries are those of the encoder's output, `longest` at most
    chunk: int = 0  # a token looks at those from the last multiple of this on
    heads: bool = False  # keys and values of heads, as paged_attention reads them: they may be kept in 8 bits
    code: str = ""  # the dtype of 8 bits in which they are kept; none: that of the cache. int8 has scales beside it
    longest: int = 0  # entries that an encoder gives at most

    @property
    def group(self) -> str:
        """Layers whose pages come and go together share a table."""
        return f"{self.of}/window={self.window}/every={self.every}" + (f"/chunk={self.chunk}" if self.chunk else "")

    def nbytes(self, page: int, dtype: Any = np.float32) -> int:
        """Bytes of one page of `page` entries."""
        return page * sum(prod(shape) * own.itemsize for shape, own in self.arrays(dtype).values())

    def arrays(self, dtype: Any = np.float32) -> dict[str, Array]:
        """What an entry is, by name."""
        own = np.dtype(self.code or dtype)
        scales = {f"{n}_scales": (s[:-1], np.dtype(np.float32)) for n, s in self.shapes.items() if own == np.int8}
        return {n: (s, own) for n, s in self.shapes.items()} | scales


@dataclass(frozen=True)
class State:
    """One slot a request, whatever its length; always float32, since a recurrence gathers its errors."""

    shapes: Shapes

    @property
    def group(self) -> str:
        """All states share one table."""
        return "state"

    def nbytes(self, page: int = 1, dtype: Any = np.float32) -> int:
        """Bytes of one slot; page and dtype change nothing."""
        return sum(prod(shape) * own.itemsize for shape, own in self.arrays().values())

    def arrays(self, dtype: Any = np.float32) -> dict[str, Array]:
        """What a slot is, by name; dtype changes nothing."""
        return {n: (s, np.dtype(np.float32)) for n, s in self.shapes.items()}


Spec = Paged | State


def page_bytes(specs: Mapping[Key, Spec], page: int, dtype: Any = np.float32) -> dict[str, int]:
    """By group, the bytes that one page number (or slot) costs over all layers."""
    total: Counter[str] = Counter()
    for spec in specs.values():
        total[spec.group] += spec.nbytes(page, dtype)
    return dict(total)


def whole(specs: Mapping[Key, Spec], page: int, dtype: Any, unit: int) -> bool:
    """Whether each array's part of a page is a multiple of so many bytes."""
    return all(_row(page if isinstance(spec, Paged) else 1, *a) % unit == 0 for spec in specs.values() for a in spec.arrays(dtype).values())


def _row(entries: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return entries * prod(shape) * dtype.itemsize


@dataclass(frozen=True)
class Group:
    """One group's part of a batch: `table` int32 [R, n] is what each request reads, `slots` int32 [T] where each token writes (-1: not).
    Of an encoder: `table` [T, n] is what each token reads, `slots` [E] where each of the encoder's tokens in the batch writes.

    Paged: the table holds page numbers and a slot is page * size + offset. State: the table holds one slot, the state before
    the first token, and a token's slot keeps the state after it. Page and slot 0 are never written: they are the zeros."""

    table: Tensor
    slots: Tensor


@dataclass(frozen=True)
class View:
    """One layer's arrays with its group's table and slots."""

    arrays: Mapping[str, Tensor]
    group: Group

    def __getitem__(self, name: str) -> Tensor:
        return self.arrays[name]


class Cache:
    """The arrays of every (layer, name) that was declared: [pages, page, ...] if paged, [slots, ...] if a state.

    `pages` counts pages (or slots) for all groups, or for each by its name; number 0 is among them. `dtype` is that of paged
    arrays whose spec names none. Where a provider's kernels want a page's axes in another order, `layout` says so: the tensor then has
    the same shape over other strides. Nothing is allocated before a provider touches it."""

    def __init__(
        self,
        specs: Mapping[Key, Spec],
        pages: int | Mapping[str, int],
        page: int,
        dtype: Any = np.float32,
        layout: Layout = lambda name, shape: None,
    ) -> None:
        self.specs, self.page, self.dtype = specs, page, np.dtype(dtype)
        self.groups = {spec.group: spec for spec in specs.values()}
        self.pages = {g: pages if isinstance(pages, int) else pages[g] for g in self.groups}
        self._check()
        self.arrays = {key: {n: self._zeros(spec, n, *a, layout) for n, a in spec.arrays(dtype).items()} for key, spec in specs.items()}

    def _check(self) -> None:
        if self.dtype not in FLOATS:
            raise ArgumentError(f"a cache of {self.dtype} is not possible; choose float32, float16 or bfloat16")
        if self.page < 1:
            raise ArgumentError(f"a page of {self.page} entries is not possible; it must hold at least 1")
        if few := [g for g, n in self.pages.items() if n < 2]:
            raise ArgumentError(f"cache group {few[0]!r} has {self.pages[few[0]]} pages; it must have at least 2, since page 0 stays zero")

    def _zeros(self, spec: Spec, name: str, own: tuple[int, ...], dtype: np.dtype[Any], layout: Layout) -> Tensor:
        if isinstance(spec, State):
            return zeros((self.pages[spec.group], *own))
        shape = (self.pages[spec.group], self.page, *own)
        order = layout(name, shape) or tuple(range(len(shape)))
        if order[0] != 0 or sorted(order) != list(range(len(shape))):
            raise ArgumentError(f"layout {order} of cache array {name!r} {list(shape)} must name each axis once, and begin with 0")
        lying = zeros(tuple(shape[a] for a in order), dtype)
        return lying.transpose(*(order.index(a) for a in range(len(order))))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, once they are all in use."""
        return sum(n * self.pages[g] for g, n in page_bytes(self.specs, self.page, self.dtype).items())

    def copy(self, group: str, source: int, target: int) -> None:
        """Copy a page (or slot) into another, in every array of a group and in every memory where it is true."""
        for key, spec in self.specs.items():
            if spec.group == group:
                for tensor in self.arrays[key].values():
                    tensor.storage.copy_row(source, target)

    def sparse(self) -> None:
        """Pages will be given back: see `give_back`."""
        for arrays in self.arrays.values():
            for tensor in arrays.values():
                tensor.storage.sparse()

    def give_back(self, group: str, page: int) -> None:
        """A page (or slot) costs no memory until it is written again."""
        for key, spec in self.specs.items():
            if spec.group == group:
                for tensor in self.arrays[key].values():
                    tensor.storage.give_back(page)

    def view(self, layer: int, name: str, groups: Mapping[str, Group]) -> View:
        """What one layer's forward reads and writes."""
        return View(self.arrays[layer, name], groups[self.specs[layer, name].group])
