"""Recorded launches as the rows of one native call: each with a table of its own, and a barrier only where one is needed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from vtcore.providers.portable.emit import TABLE_WORDS
from vtcore.providers.portable.launch import ALIGNMENT, Bound, Span
from vtcore.providers.portable.team import BARRIER, ROW, Team


class Replay:
    """Launches to run again, in order. It holds addresses only: whoever recorded them keeps what they point to."""

    def __init__(self, team: Team, launches: Sequence[Bound]) -> None:
        self.team, n = team, len(launches)
        memory = np.zeros(n * TABLE_WORDS * 8 + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self._tables = memory[start : start + n * TABLE_WORDS * 8].view(np.int64).reshape(n, TABLE_WORDS)
        self._rows = np.zeros((n, ROW), np.int64)
        for i, (launch, barrier) in enumerate(zip(launches, barriers(launches), strict=True)):
            self._tables[i, : len(launch.table)] = launch.table
            self._rows[i, :3] = launch.native.address, self._tables[i].ctypes.data, BARRIER * barrier
        self._address = self._rows.ctypes.data

    def __call__(self) -> None:
        self.team.run(self._address, len(self._rows))


def barriers(launches: Sequence[Bound]) -> Iterator[bool]:
    """Whether all threads must meet after each launch: when the next one touches what was written since the last meeting, or writes
    what was read. Always after the last."""
    read, written = _Spans(), _Spans()
    for launch, following in zip(launches, [*launches[1:], None], strict=True):
        for span in launch.reads:
            read.add(span)
        for span in launch.writes:
            written.add(span)
        meets = (
            following is None
            or any(map(written.touches, (*following.reads, *following.writes)))
            or any(map(read.touches, following.writes))
        )
        yield meets
        if meets:
            read, written = _Spans(), _Spans()


class _Spans:
    """A set of addresses as sorted spans that don't touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def touches(self, span: Span) -> bool:
        """Whether any address of the span is in the set."""
        i = bisect_left(self._begins, span[1])
        return i > 0 and self._ends[i - 1] > span[0]

    def add(self, span: Span) -> None:
        """Put a span in, joined with those that it meets."""
        begin, end = span
        low, high = bisect_left(self._ends, begin), bisect_left(self._begins, end + 1)
        if low < high:
            begin, end = min(begin, self._begins[low]), max(end, self._ends[high - 1])
        self._begins[low:high], self._ends[low:high] = [begin], [end]
