"""Whether a call says anything of a kernel: where the definition itself moves by about the tolerance when its inputs move by a last
place, another order of the same arithmetic may do so too."""

from __future__ import annotations

from typing import Any

import numpy as np

from vtcore.conformance.case import Case
from vtcore.conformance.judge import Answer, difference
from vtcore.conformance.layout import like

Array = np.ndarray[Any, Any]
MOVED = 2.0**-21  # relative: some last places of a float32, which is what a few operations on it come to
ALLOWED = 0.2  # of the bound


def steady(case: Case) -> bool:
    """Whether the definition, its inputs moved by MOVED, stays well within the op's tolerance.

    Where an op chooses, equal values are moved alike, so that ties stay; elsewhere each by itself."""
    chooses = case.op.tolerance.of("float32") == 0 or any(r.dtype.kind == "i" for r in case.op.signature.results)
    rng = None if chooses else np.random.default_rng(0)
    moved = Answer(case.op, {n: _moved(v, rng) if isinstance(v, np.ndarray) else v for n, v in case.call.items()})
    here = Answer(case.op, case.call)
    pairs = [*zip(moved.results, here.results, strict=True), *((moved.written[n], here.written[n]) for n in here.written)]
    found = [difference(case.op, "result", got, want, here.rtol) for got, want in pairs]
    return all(d is None or d.error <= d.bound * ALLOWED + _last_places(d.want) for d in found)


def _last_places(want: Any) -> float:
    """What the moved inputs themselves come to, where they go through as they are."""
    size = abs(float(want))
    return 2 * MOVED * size if np.isfinite(size) else 0.0


def _moved(array: Array, rng: np.random.Generator | None) -> Array:
    if array.dtype.kind in "iub" or not array.size:
        return array
    wide = like(array.astype(np.float32)) if array.dtype == np.float32 else np.empty(array.shape, np.float32)
    values = array.astype(np.float32)
    up = values.view(np.int32) & 8 if rng is None else rng.integers(0, 2, array.shape)
    with np.errstate(all="ignore"):
        wide[...] = values * (1 + np.where(up, MOVED, -MOVED))
    return wide
