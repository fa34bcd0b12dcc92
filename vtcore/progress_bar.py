"""How many of many prompts are answered, on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from vtcore.errors import ArgumentError
from vtcore.request import Submission

Wanted = bool | Callable[..., Any]  # whether there is to be a bar; or what makes one, called as tqdm is


class ProgressBar:
    """A context in which requests that have ended are counted. True: shown where stderr is a terminal, else nothing. What goes wrong on
    the screen ends the bar, never the work."""

    def __init__(self, total: int, wanted: Wanted = True) -> None:
        if not isinstance(wanted, bool) and not callable(wanted):
            raise ArgumentError(f"use_tqdm is {wanted!r:.80}; it must be True, False or what makes a bar, as tqdm does")
        self.total, self.wanted = total, wanted
        self._bar: Any = None
        self._read = self._written = 0  # tokens
        self._begin = time.monotonic()

    def __enter__(self) -> ProgressBar:
        if callable(self.wanted) or (self.wanted and _on_terminal()):
            self._safely(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._safely(self._bar.close)

    def ended(self, submissions: Sequence[Submission]) -> None:
        """These are answered."""
        if self._bar is not None and submissions:
            self._safely(lambda: self._show(submissions))

    def _open(self) -> None:
        from tqdm import tqdm

        make: Callable[..., Any] = self.wanted if callable(self.wanted) else tqdm
        self._bar = make(total=self.total, desc="Processed prompts", dynamic_ncols=True)

    def _show(self, submissions: Sequence[Submission]) -> None:
        self._read += sum(len(s.prompt_token_ids) for s in submissions)
        self._written += sum(len(r.output_token_ids) for s in submissions for r in s.requests)
        seconds = max(time.monotonic() - self._begin, 1e-9)
        speed = f"input {self._read / seconds:.0f} tokens/s, output {self._written / seconds:.0f} tokens/s"
        self._bar.set_postfix_str(speed, refresh=False)
        self._bar.update(len(submissions))

    def _safely(self, show: Callable[[], Any]) -> None:
        try:
            show()
        except (OSError, ValueError):  # the terminal went away
            self._bar = None


def _on_terminal() -> bool:
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, OSError, ValueError):  # there is none, or it is closed
        return False
