"""A progress bar on stderr while files are fetched and weights prepared; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from vtcore.wheels import Progress, silent

if TYPE_CHECKING:
    from tqdm import tqdm


@contextmanager
def bar() -> Iterator[Progress]:
    """A Progress for the time of the block."""
    if not sys.stderr.isatty():
        yield silent
        return
    with closing(_Bar()) as shown:
        yield shown


class _Bar:
    """One bar at a time: that of what is being done now."""

    def __init__(self) -> None:
        self.what = ""
        self.bar: tqdm[Any] | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        if self.bar is None or what != self.what:
            from tqdm import tqdm

            self.close()
            self.what, self.bar = what, tqdm(desc=what, total=total, unit="B", unit_scale=True, unit_divisor=1024, leave=False)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        """Take it off the screen."""
        if self.bar is not None:
            self.bar.close()
