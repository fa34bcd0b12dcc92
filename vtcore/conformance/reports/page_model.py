"""What the HTML page shows, worked out from the JSON of checks and of `vtcore bench-op`: no numbers are made up here, only counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vtcore.errors import ArgumentError

Json = Mapping[str, Any]
EDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of the bins, in shares of the bound
BINS = ("exact", "to 0.0001", "to 0.001", "to 0.01", "to 0.1", "to 1", "over 1: wrong")
STATES = {  # of an op on a provider -> its mark, and in words
    "pass": ("✓", "all pass"),
    "partly": ("◐", "some declined"),
    "gap": ("◇", "known gaps"),
    "declined": ("–", "declined"),
    "fail": ("✗", "wrong"),
    "absent": (" ", "not checked"),
}


@dataclass(frozen=True)
class Histogram:
    """How far results were from the definition, in shares of what is allowed: a count for each of BINS."""

    counts: tuple[int, ...]

    @classmethod
    def of(cls, verdicts: Sequence[Json]) -> Histogram:
        """Of the worst element of each call."""
        bins = Counter(_bin(v["worst"]) for v in verdicts if v.get("worst"))
        return cls(tuple(bins[i] for i in range(len(BINS))))

    @property
    def rows(self) -> list[tuple[str, int, float]]:
        """Name, count, and length of the bar in percent of the longest."""
        longest = max(self.counts) or 1
        return [(name, n, 100 * n / longest) for name, n in zip(BINS, self.counts, strict=True)]

    @property
    def total(self) -> int:
        return sum(self.counts)


@dataclass(frozen=True)
class Cell:
    """An op on a provider."""

    op: str
    verdicts: Sequence[Json]

    @property
    def counts(self) -> Counter[str]:
        return Counter(v["outcome"] for v in self.verdicts)

    @property
    def state(self) -> str:
        """One of STATES."""
        c = self.counts
        if not c:
            return "absent"
        if c["fail"] + c["error"]:
            return "fail"
        if c["known_gap"]:
            return "gap"
        return "declined" if c["declined"] == c.total() else "partly" if c["declined"] else "pass"

    @property
    def words(self) -> str:
        """Such as: 12 of 14 pass, 2 declined."""
        c, total = self.counts, self.counts.total()
        wrong = c["fail"] + c["error"]
        parts = [f"{c['pass']} of {total} pass" if c["pass"] < total else f"{total} pass"] if c["pass"] else []
        parts += [f"{n} {name}" for n, name in ((wrong, "wrong"), (c["known_gap"], "known gaps"), (c["declined"], "declined")) if n]
        return ", ".join(parts) or "not checked"

    @property
    def mark(self) -> str:
        return STATES[self.state][0]

    @property
    def worst(self) -> float | None:
        """The largest error by its bound, of all calls that have one."""
        return max((_share(v["worst"]) for v in self.verdicts if v.get("worst")), default=None)

    @property
    def histogram(self) -> Histogram:
        return Histogram.of(self.verdicts)

    @property
    def bound_at(self) -> str:
        return next((str(v["bound_at"]) for v in self.verdicts if v.get("bound_at")), "")


@dataclass(frozen=True)
class Decline:
    """A reason, the ops that it was given for, and how often."""

    reason: str
    ops: tuple[str, ...]
    calls: int


@dataclass(frozen=True)
class Column:
    """One provider's check."""

    name: str
    data: Json
    cells: Mapping[str, Cell] = field(repr=False)

    @classmethod
    def of(cls, data: Json, where: str) -> Column:
        """From the JSON of a check. ArgumentError where it is something else."""
        try:
            _check_kinds(data, False, facts=dict, stale=list, failed=bool, vtcore=str)
            by_op: dict[str, list[Json]] = {}
            for verdict in data["verdicts"]:
                _check_verdict(verdict)
                by_op.setdefault(verdict["op"], []).append(verdict)
            return cls(str(data["provider"]), data, {op: Cell(op, found) for op, found in by_op.items()})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            wrong = f"{where} is no report of `vtcore check --format json`: {type(error).__name__}: {error}"
            raise ArgumentError(wrong) from error

    def cell(self, op: str) -> Cell:
        """What was found of an op; an empty cell where it wasn't checked."""
        return self.cells.get(op, Cell(op, ()))

    @property
    def verdicts(self) -> Sequence[Json]:
        return list(self.data["verdicts"])

    @property
    def all(self) -> Cell:
        """Every op as one."""
        return Cell("", self.verdicts)

    @property
    def covered(self) -> int:
        """Ops of which at least one call passed, and none was wrong."""
        return sum(1 for cell in self.cells.values() if cell.counts["pass"] and cell.state != "fail")

    def listed(self, *outcomes: str) -> list[Json]:
        """Verdicts of these outcomes."""
        return [v for v in self.verdicts if v["outcome"] in outcomes]

    @property
    def declines(self) -> list[Decline]:
        """Most frequent first."""
        calls, ops = Counter[str](), dict[str, dict[str, None]]()
        for verdict in self.listed("declined"):
            calls[verdict["reason"]] += 1
            ops.setdefault(verdict["reason"], {})[verdict["op"]] = None
        return [Decline(reason, tuple(ops[reason]), n) for reason, n in calls.most_common()]


@dataclass(frozen=True)
class Race:
    """One result of `vtcore bench-op`."""

    data: Json

    @classmethod
    def of(cls, data: Json, where: str) -> Race:
        """ArgumentError where the JSON is something else."""
        try:
            if data["vtcore_bench_op"] != 1:
                raise ValueError("vtcore_bench_op is not 1")
            _check_kinds(data, True, op=str, call=str, bound=str, machine=dict, roofline=dict, speeds=list)
            _check_numbers(data["roofline"], "bandwidth", "flops", "threads")
            for speed in data["speeds"]:
                _check_kinds(speed, True, provider=str, wrong=str, unshared=str)
                _check_numbers(speed, "seconds", "gbytes", *(n for n in ("gflops", "share") if speed[n] is not None))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArgumentError(f"{where} is no result of `vtcore bench-op --json`: {type(error).__name__}: {error}") from error
        return cls(data)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each provider's figures, with how many times it is as fast as the reference."""
        slowest = next((s["seconds"] for s in self.data["speeds"] if s["provider"] == "reference" and not s["wrong"]), None)
        return [{**s, "times": slowest / s["seconds"] if slowest and s["seconds"] else None} for s in self.data["speeds"]]


def _bin(worst: Json) -> int:
    share = _share(worst)
    return 0 if share == 0 else next((i + 1 for i, edge in enumerate(EDGES) if share <= edge), len(BINS) - 1)


def _share(worst: Json) -> float:
    return float(worst["share"])


def _check_verdict(verdict: Json) -> None:
    _check_kinds(verdict, True, op=str, case=str, call=str, outcome=str, reason=str)
    _check_kinds(verdict, False, kind=str, again=str, bound_at=str, saved=str)
    if verdict.get("worst"):
        _share(verdict["worst"])


def _check_kinds(data: Json, needed: bool, /, **kinds: type) -> None:
    """Each is of its kind, where it is there; `needed`: it must be."""
    for name, kind in kinds.items():
        value = data[name] if needed else data.get(name, kind())
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r:.40}; it must be {kind.__name__}")


def _check_numbers(data: Json, *names: str) -> None:
    for name in names:
        if not (math.isfinite(data[name]) and data[name] >= 0):
            raise ValueError(f"{name} is {data[name]!r:.40}; it must be a number from 0")
