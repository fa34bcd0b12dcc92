"""A progress bar on stderr while files are fetched and put together; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from vtcore.wheels import Progress, silent

if TYPE_CHECKING:
    from tqdm import tqdm


@contextmanager
def bar() -> Iterator[Progress]:
    """A Progress for the time of the block: one bar for each thing that is done."""
    if not sys.stderr.isatty():
        yield silent
        return
    from tqdm import tqdm

    with ExitStack() as shown:
        bars: dict[str, tqdm[Any]] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = shown.enter_context(tqdm(desc=what, total=total, unit="B", unit_scale=True, unit_divisor=1024, leave=False))
            bars[what].update(done - bars[what].n)

        yield progress
