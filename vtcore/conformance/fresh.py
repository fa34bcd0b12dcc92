"""Fresh calls, always drawn beside an op's samples: shapes and strides that no list holds, and one value that is no number.

A kernel that is right on the samples alone is seen by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any
from zlib import crc32

import numpy as np

from vtcore.conformance.case import Case, cases
from vtcore.conformance.steady import steady
from vtcore.conformance.vary import ROWS, SPECIAL, Random, Variation
from vtcore.op import Call, Op
from vtcore.quant.blocks import Blocks

TRIES = 60
LARGE, SMALL = 100, 20  # sizes of axes: of an op that has one or two; of one with more, whose work is their product
FEW, STRETCH = 8, (257, 640)  # sizes of the other axes, and of one that is long
Change = Callable[[Variation], bool]


def fresh(op: Op, seed: int = 0) -> Iterator[Case]:
    """A few calls of shapes that no sample has; of those some with other strides; then one each with NaN and the infinities; then one of
    many rows, and one with another long axis; last one of each block format that samples hold."""
    samples = list(cases(op, seed))
    known = {_shapes(s.call) for s in samples}
    wanted: list[tuple[Change, list[Case], bool]] = [(change, samples, True) for change in (_sized, _sized, _strided)]
    wanted += [(_special(v), samples, False) for v in SPECIAL]
    wanted += [(change, _plain(samples), True) for change in (_tall, _long)]
    wanted += [(_sized, those, True) for those in _by_format(samples)]
    for number, (change, those, new) in enumerate(wanted):
        rng = np.random.default_rng([seed, crc32(op.name.encode()), 1, number])
        if (call := _found(op, those, change, rng, known if new else set())) is not None:
            yield Case(op, call, seed, number, "fresh")


def _plain(samples: list[Case]) -> list[Case]:
    """Those that most kernels take: float32, and no number other than the op's own; all, where there are none."""
    return [s for s in samples if all(_is_plain(v, s.op.parameters[n]) for n, v in s.call.items())] or samples


def _is_plain(value: Any, default: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(v, default) for v in value)
    if isinstance(value, (np.ndarray, Blocks)):
        return str(value.dtype) in ("float32", "int32", "bool")
    return value is None or default is inspect.Parameter.empty or value == default


def _by_format(samples: list[Case]) -> list[list[Case]]:
    """The samples of each block format, where there are several: a kernel may take one alone."""
    formats: dict[str, list[Case]] = {}
    for sample in samples:
        for name in dict.fromkeys(str(v.dtype) for v in sample.call.values() if isinstance(v, Blocks)):
            formats.setdefault(name, []).append(sample)
    return list(formats.values()) if len(formats) > 1 else []


def _found(op: Op, samples: list[Case], change: Change, rng: np.random.Generator, known: set[str]) -> Call | None:
    for _ in range(TRIES):
        variation = Variation(op, samples, Random(rng))
        if change(variation) and _shapes(variation.call) not in known and steady(Case(op, variation.call, 0, 0)):
            return variation.call
    return None


def _sized(variation: Variation) -> bool:
    variation.sizes(1, LARGE if len(variation.axes()) <= 2 else SMALL)
    variation.values()
    return _rows(variation.call)


def _strided(variation: Variation) -> bool:
    variation.sizes(1, SMALL)
    variation.layouts(("cut", "turned", "spaced"))
    return _rows(variation.call) and any(isinstance(v, np.ndarray) and not v.flags.c_contiguous for v in variation.call.values())


def _tall(variation: Variation) -> bool:
    """More rows than the groups of a kernel hold."""
    rows = [axis for axis in variation.axes() if axis in (*ROWS, "...0")]
    return bool(rows) and _stretched(variation, rows)


def _long(variation: Variation) -> bool:
    """An axis other than that of the rows."""
    others = [axis for axis in variation.axes() if axis not in ROWS and not axis.startswith("...")]
    return bool(others) and _stretched(variation, others)


def _stretched(variation: Variation, axes: list[str]) -> bool:
    variation.sizes(2, FEW)
    axis, before = variation.choices.pick(axes), _shapes(variation.call)
    variation.resize(axis, variation.choices.integer(*STRETCH))
    variation.values()
    return _shapes(variation.call) != before and _rows(variation.call)


def _special(value: float) -> Change:
    return lambda variation: _rows(variation.call) and variation.special(value)


def _rows(call: Call) -> bool:
    """Whether there is anything to compute."""
    return all(v.size for v in call.values() if isinstance(v, np.ndarray))


def _shapes(call: Call) -> str:
    return str([getattr(v, "shape", None) for v in call.values()])
