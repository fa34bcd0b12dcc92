"""Matrices that no kernel sees as a whole, as parts: some rows of one, some of a stack. On the host a part is a place, not a copy."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from vtcore.providers.gpu.device import COUNTED, Device, Limits, too_large
from vtcore.tensor import Tensor, of

EVEN = 128  # rows: after so many a buffer may begin, on any device
Place = tuple[slice, ...]
Axes = tuple[int, ...]  # along which something may be cut, as counted from its last; those that it lacks are left out
ROWS: Axes = (-2,)  # of a matrix [N K]
MATRICES: Axes = (-3, -2)  # of a stack [E N K]: some matrices, or some rows of one
HEADS: Axes = (-3, -1)  # of [H A B], each head's matrix read by columns: some heads, or some columns of one


class Part(NamedTuple):
    """A part, true on the device, with where it begins along the first and the last of the axes that a weight is cut along."""

    seen: Tensor
    entry: int
    first: int


def parts(device: Device, weight: Tensor, axes: Axes) -> list[Part]:
    """A weight as kernels see it: itself, or as few parts as do, which are kept as long as its bytes are the same."""
    if not too_large(weight, device.limits):
        return [Part(weight, 0, 0)]
    key, forms = (device, "parts", axes, weight.offset, weight.shape, weight.strides), weight.storage.forms
    if key not in forms:
        forms[key] = list(_brought(device, weight, axes))
    cut: list[Part] = forms[key]
    return cut


def can_be_cut(weight: Tensor, axes: Axes, limits: Limits) -> bool:
    """Whether a kernel sees at least the smallest part."""
    there = _there(weight, axes)
    return bool(there) and _most(weight, there, limits) > 0


def _brought(device: Device, weight: Tensor, axes: Axes) -> Iterator[Part]:
    for place, entry, first in _places(weight, _there(weight, axes), device.limits):
        seen = of(weight[place].numpy())
        seen.storage.at(device)
        yield Part(seen, entry, first)


def _places(weight: Tensor, axes: Axes, limits: Limits) -> Iterator[tuple[Place, int, int]]:
    """Whole entries of a stack, as many as a kernel can see; where that is none, rows (or columns) of each."""
    *stacked, inner = axes
    count = weight.shape[stacked[0]] if stacked else 1
    several = _most(weight, tuple(stacked), limits) if stacked else 0
    most, length = _most(weight, axes, limits), weight.shape[inner]
    rows = length if several else most // EVEN * EVEN or most
    for entry in range(0, count, several or 1):
        for first in range(0, length, rows):
            spans = dict(zip(axes, (*((entry, several or 1) for _ in stacked), (first, rows)), strict=True))
            yield tuple(slice(*_span(spans.get(a - weight.ndim))) for a in range(weight.ndim)), entry, first


def _span(begin: tuple[int, int] | None) -> tuple[int | None, int | None]:
    return (None, None) if begin is None else (begin[0], sum(begin))


def _there(weight: Tensor, axes: Axes) -> Axes:
    return tuple(a for a in axes if -a <= weight.ndim)


def _most(weight: Tensor, axes: Axes, limits: Limits) -> int:
    """How many entries along the last of these axes, of one along the others, a kernel can see at a time."""
    units = max(1, prod(weight.shape[a] for a in axes))
    return min(limits.binding // max(1, weight.nbytes // units), (COUNTED - 1) // max(1, weight.size // units))
