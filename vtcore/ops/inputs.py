"""Arrays for samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vtcore.op import Call


def nothing(rng: np.random.Generator) -> Iterator[Call]:
    yield from ()


def nothing_wrong() -> Iterator[tuple[Call, str]]:
    yield from ()
