"""A kernel run many times on the same inputs: in other orders, over other leavings in memory. What changes the result is a finding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtcore.simt.program import Program, Settings
from vtcore.simt.signature import Signature
from vtcore.simt.values import Array, Given

BAND = 4096  # bytes on each side of a buffer
NAN, ODD = 0xFFFFFFFF, 0x3F8F3F8F
FORWARD, BACKWARD, SHUFFLED = range(3)


@dataclass(frozen=True)
class Launch:
    """How a kernel is launched."""

    grid: tuple[int, int, int]
    size: tuple[int, int, int]
    subgroup: int = 32
    orders: int = 3  # random ones, besides forward and backward
    seed: int = 0


@dataclass(frozen=True)
class Finding:
    """Something wrong: which kind, and where it shows."""

    kind: str
    text: str


@dataclass
class Result:
    """What came of all runs."""

    findings: list[Finding]
    arrays: dict[str, Array]  # after the run in order
    runs: int = 0
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Way:
    """One run: the order, and what memory holds that the kernel may not read."""

    order: int = FORWARD
    seed: int = 0
    shared: int = NAN
    around: int = NAN
    only: str = ""  # the one buffer whose surroundings `around` fills
    before: int = NAN  # of buffers that hold nothing


class Trial:
    """A compiled kernel and its inputs."""

    def __init__(self, program: Program, kernel: Signature, launch: Launch, values: Given) -> None:
        self.program, self.kernel, self.launch, self.values = program, kernel, launch, values
        self.waits = program.kernels[kernel.name][1].waits
        self.runs = 0

    def result(self) -> Result:
        """Runs everything. Nothing is compared where a barrier was missed or memory was written outside of buffers."""
        first, findings = self._run(Way())
        notes: list[str] = []
        if not findings:
            findings += self._unwritten(first, notes)
            findings += self._races(first)
            findings += self._changed(first, Way(shared=ODD), "uninitialised", "shared memory is read before anything is written there")
            for name in self.values.arrays:
                findings += self._changed(first, Way(around=ODD, only=name), "bounds", f"{name} is read outside of its bounds")
        return Result(findings, first, self.runs, notes)

    def _run(self, way: Way) -> tuple[dict[str, Array], list[Finding]]:
        self.runs += 1
        held = {p.name: self._held(p.name, way) for p in self.kernel.buffers}
        settings = Settings(
            self.launch.grid, self.launch.size, way.order, way.seed, way.shared, int(self.waits), self.launch.subgroup, self.values.room
        )
        wrong = self.program.launch(self.kernel.name, [a.ctypes.data + BAND for a in held.values()], self.values.packed, settings)
        findings = [Finding("barrier", wrong)] if wrong else []
        out = {}
        for name, whole in held.items():
            like = self.values.arrays[name]
            findings += _bands(name, whole, like, self._fill(name, way))
            out[name] = whole[BAND : BAND + like.nbytes].view(like.dtype).reshape(like.shape)
        return out, findings

    def _fill(self, name: str, way: Way) -> int:
        return way.around if way.only in ("", name) else NAN

    def _held(self, name: str, way: Way) -> Array:
        like = self.values.arrays[name]
        whole = _filled(like.nbytes + 2 * BAND, self._fill(name, way))
        inside = _filled(like.nbytes, way.before) if name in self.values.empty else like.reshape(-1).view(np.uint8)
        whole[BAND : BAND + like.nbytes] = inside
        return whole

    def _unwritten(self, first: dict[str, Array], notes: list[str]) -> Iterator[Finding]:
        """Of buffers that hold nothing: what is still as it was, and what came of reading it."""
        if not self.values.empty:
            return
        second, _ = self._run(Way(before=ODD))
        for name, a in first.items():
            b, size = second[name], a.dtype.itemsize
            left = np.ones(a.size, bool)
            for array, fill in ((a, NAN), (b, ODD)):
                left &= (array.reshape(-1, 1).view(np.uint8) == _filled(size, fill)).all(1)
            if name in self.values.empty and left.any():
                at = np.unravel_index(int(np.argmax(left)), a.shape)
                notes.append(f"{name}: {int(left.sum())} of {a.size} elements are not written; the first is {_place(name, at)}")
            elif (where := _differs(a, b)) is not None:
                yield Finding(
                    "uninitialised", f"what was in memory before is read: {_told(name, where, a, b, 'over NaN', 'over other bytes')}"
                )

    def _races(self, first: dict[str, Array]) -> list[Finding]:
        if found := self._changed(first, Way(BACKWARD), "race", "the order of work items changes the result", "in reverse"):
            return found
        for k in range(self.launch.orders):
            way = Way(SHUFFLED, self.launch.seed + 7919 * k + 1)
            if found := self._changed(first, way, "race", "the order of work items changes the result", "in a random order"):
                return found
        return []

    def _changed(self, first: dict[str, Array], way: Way, kind: str, text: str, other: str = "over other bytes") -> list[Finding]:
        again, findings = self._run(way)
        if findings:
            return findings
        for name, a in first.items():
            if (where := _differs(a, again[name])) is not None:
                return [Finding(kind, f"{text}: {_told(name, where, a, again[name], 'in order' if kind == 'race' else 'over NaN', other)}")]
        return []


def _filled(nbytes: int, fill: int) -> Array:
    return np.resize(np.array([fill], np.uint32).view(np.uint8), nbytes)


def _differs(a: Array, b: Array) -> tuple[int, ...] | None:
    size = a.dtype.itemsize
    other = (a.reshape(-1, 1).view(np.uint8).reshape(-1, size) != b.reshape(-1, 1).view(np.uint8).reshape(-1, size)).any(1)
    return tuple(map(int, np.unravel_index(int(np.argmax(other)), a.shape))) if other.any() else None


def _place(name: str, at: Any) -> str:
    return f"{name}[{', '.join(str(int(i)) for i in at)}]"


def _told(name: str, at: tuple[int, ...], a: Array, b: Array, one: str, other: str) -> str:
    return f"{_place(name, at)} is {a[at]} {one}, and {b[at]} {other}"


def _bands(name: str, whole: Array, like: Array, fill: int) -> list[Finding]:
    out, size = [], like.dtype.itemsize
    for side, begin in (("before its first element", 0), ("behind its last", BAND + like.nbytes)):
        band = whole[begin : begin + BAND]
        spoilt = np.flatnonzero(band != (_filled(BAND, fill) if begin == 0 else _filled(BAND + like.nbytes % 4, fill)[like.nbytes % 4 :]))
        if len(spoilt):
            at = (int(spoilt[0]) + begin - BAND) // size
            out.append(Finding("bounds", f"{name} is written {side}: at [{at}], and it has {like.size} elements"))
    return out
