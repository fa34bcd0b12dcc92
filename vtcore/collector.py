"""Python's cycle collector, kept away from where a great deal is made and nothing is dropped."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector, which would walk over a hundred thousands of objects again and again while they are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def loading() -> Iterator[None]:
    """The same; and what was made is never walked over afterwards either, since it stays for as long as the process."""
    with uncollected():
        yield
        gc.freeze()
