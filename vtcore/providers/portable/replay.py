"""Recorded launches as the rows of one native call: each with a table of its own; threads meet only where they must."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from vtcore.providers.portable.emit import TABLE_WORDS
from vtcore.providers.portable.launch import ALIGNMENT, Bound, Span
from vtcore.providers.portable.team import ROW, Team


class Replay:
    """Launches to run again, in order. It holds addresses only: whoever recorded them keeps what they point to."""

    def __init__(self, team: Team, launches: Sequence[Bound]) -> None:
        self.team, n = team, len(launches)
        memory = np.zeros(n * TABLE_WORDS * 8 + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self._tables = memory[start : start + n * TABLE_WORDS * 8].view(np.int64).reshape(n, TABLE_WORDS)
        self._rows = np.zeros((n, ROW), np.int64)
        for i, launch in enumerate(launches):
            self._tables[i, : len(launch.table)] = launch.table
            self._rows[i, :2] = launch.native.address, self._tables[i].ctypes.data
        first = 0
        for length in phases(launches):
            self._rows[first, 2] = length if launches[first].shared else 0
            first += length
        self._address = self._rows.ctypes.data

    def __call__(self) -> None:
        self.team.run(self._address, len(self._rows))


def phases(launches: Sequence[Bound]) -> Iterator[int]:
    """Cut the launches into runs that all threads may do without meeting in between: their lengths.

    A launch that isn't shared is alone in its phase. Of the others, none writes what another of its phase touches."""
    length, read, written = 0, _Spans(), _Spans()
    for launch in launches:
        clash = any(map(written.touches, (*launch.reads, *launch.writes))) or any(map(read.touches, launch.writes))
        if length and (clash or not launch.shared):
            yield length
            length, read, written = 0, _Spans(), _Spans()
        if not launch.shared:
            yield 1
            continue
        length += 1
        read.update(launch.reads)
        written.update(launch.writes)
    if length:
        yield length


class _Spans:
    """A set of addresses as sorted spans that don't touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def touches(self, span: Span) -> bool:
        """Whether any address of the span is in the set."""
        i = bisect_left(self._begins, span[1])
        return i > 0 and self._ends[i - 1] > span[0]

    def update(self, spans: Sequence[Span]) -> None:
        """Put spans in."""
        for span in spans:
            self.add(span)

    def add(self, span: Span) -> None:
        """Put a span in, joined with those that it meets."""
        begin, end = span
        low, high = bisect_left(self._ends, begin), bisect_left(self._begins, end + 1)
        if low < high:
            begin, end = min(begin, self._begins[low]), max(end, self._ends[high - 1])
        self._begins[low:high], self._ends[low:high] = [begin], [end]
