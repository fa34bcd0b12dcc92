"""Fresh calls, always drawn beside an op's samples: shapes and strides that no list holds, and one value that is no number.

A kernel that is right on the samples alone is seen by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

import numpy as np

from vtcore.conformance.case import Case, cases
from vtcore.conformance.steady import steady
from vtcore.conformance.vary import SPECIAL, Random, Variation
from vtcore.op import Call, Op

TRIES = 60
LARGE, SMALL = 100, 20  # sizes of axes: of an op that has one or two; of one with more, whose work is their product
Change = Callable[[Variation], bool]


def fresh(op: Op, seed: int = 0) -> Iterator[Case]:
    """A few calls of shapes that no sample has; of those some with other strides; then one each with NaN and the infinities."""
    samples = list(cases(op, seed))
    known = {_shapes(s.call) for s in samples}
    wanted: list[Change] = [_sized, _sized, _strided, *(_special(v) for v in SPECIAL)]
    for number, change in enumerate(wanted):
        rng = np.random.default_rng([seed, crc32(op.name.encode()), 1, number])
        if (call := _found(op, samples, change, rng, known if number < 3 else set())) is not None:
            yield Case(op, call, seed, number, "fresh")


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


def _special(value: float) -> Change:
    return lambda variation: _rows(variation.call) and variation.special(value)


def _rows(call: Call) -> bool:
    """Whether there is anything to compute."""
    return all(v.size for v in call.values() if isinstance(v, np.ndarray))


def _shapes(call: Call) -> str:
    return str([getattr(v, "shape", None) for v in call.values()])
