"""Rules for the values of a call. Each says in words what is wrong, or None; of an array only where the host has it as an ndarray."""

from __future__ import annotations

from typing import Any

import numpy as np


def first(*wrong: str | None) -> str | None:
    """The first thing that is wrong."""
    return next((w for w in wrong if w), None)


def unless(fine: bool, wrong: str) -> str | None:
    """What to say where a condition doesn't hold."""
    return None if fine else wrong


def inside(name: str, array: Any, low: float, high: float) -> str | None:
    """Values must be in [low, high)."""
    if not isinstance(array, np.ndarray) or not array.size:
        return None
    wrong = array[~((array >= low) & (array < high))]
    return f"{name} holds {wrong.flat[0]}; it must be in [{low}, {high})" if wrong.size else None


def between(name: str, array: Any, low: float, high: float) -> str | None:
    """Values must be in [low, high]."""
    if not isinstance(array, np.ndarray) or ((array >= low) & (array <= high)).all():
        return None
    return f"{name} holds {array[~((array >= low) & (array <= high))].flat[0]}; it must be in [{low}, {high}]"


def rising(name: str, starts: Any, last: int) -> str | None:
    """Borders of consecutive runs of rows: never falling, in [0, last]."""
    if isinstance(starts, np.ndarray) and starts.size and (np.diff(starts) < 0).any():
        return f"{name} is {starts.tolist()}; it must never fall"
    return inside(name, starts, 0, last + 1)


def positive(**numbers: float) -> str | None:
    """Numbers must be over zero."""
    return first(*(unless(v > 0, f"{n} is {v}; it must be over 0") for n, v in numbers.items()))


def not_negative(**numbers: float) -> str | None:
    """Numbers must be zero or more."""
    return first(*(unless(v >= 0, f"{n} is {v}; it must be 0 or more") for n, v in numbers.items()))
