"""`vtcore bench-op` as plain data: how fast a kernel is, against what the machine gives and against other kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from vtcore.bench import machine
from vtcore.bench.op_inputs import cold, sets_for
from vtcore.bench.op_timing import Effort, Timed, race
from vtcore.bench.op_work import flops, nbytes
from vtcore.bench.roofline import Roofline
from vtcore.conformance.case import Case
from vtcore.memory import HOST
from vtcore.op import Call, Op
from vtcore.provider import Provider


@dataclass(frozen=True)
class Speed:
    """One provider. `wrong` says what was wrong with its timed results; then its times mean nothing. A share is of the roofline."""

    provider: str
    seconds: float  # a call: the median of all
    least: float  # the medians of the fastest and the slowest round
    most: float
    calls: int
    checked: int
    gbytes: float  # 1e9 bytes a second
    gflops: float | None
    share: float | None
    unshared: str  # why there is no share
    wrong: str

    def json(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Ratio:
    """How often the first provider is as fast as another: seconds of that one by seconds of the first, round by round."""

    against: str
    median: float
    least: float
    most: float


@dataclass(frozen=True)
class OpBench:
    """One op, one call, one machine."""

    op: str
    call: str
    nbytes: int
    flops: int | None
    sets: int
    cold: bool
    bound: str
    roofline: Roofline
    speeds: tuple[Speed, ...]
    ratios: tuple[Ratio, ...]
    machine: Mapping[str, Any]

    def json(self) -> dict[str, Any]:
        """As plain data."""
        kept = ("op", "call", "nbytes", "flops", "sets", "cold", "bound", "machine")
        lists = {"speeds": [s.json() for s in self.speeds], "ratios": [vars(r) for r in self.ratios]}
        return {"vtcore_bench_op": 1, **{n: getattr(self, n) for n in kept}, "roofline": vars(self.roofline), **lists}

    @property
    def wrong(self) -> bool:
        """Whether any timed result was."""
        return any(s.wrong for s in self.speeds)


def bench(op: Op, base: Call, providers: Sequence[Provider], effort: Effort, measure: Callable[[], Roofline]) -> OpBench:
    """Time one call's like on each provider, in turns; the first is compared with the others. Raises ProviderError where one declines.

    `measure` gives the roofline; it is asked before and after, and the better counts: others may have been at work meanwhile."""
    facts, count = machine.describe(providers), sets_for(base)
    work, roof = (nbytes(op, base), flops(op, base)), measure()
    timed = race(op, base, providers, effort, count)
    roof = roof.better(measure())
    speeds = tuple(_speed(op, t, *work, cold(base, count), roof) for t in timed)
    ratios = tuple(_ratio(timed[0], t) for t in timed[1:])
    call = repr(Case(op, base, 0, 0))
    return OpBench(op.name, call, *work, count, cold(base, count), roof.bound(*work), roof, speeds, ratios, facts)


def _speed(op: Op, timed: Timed, size: int, count: int | None, cold: bool, roof: Roofline) -> Speed:
    rounds = [median(r) for r in timed.rounds]
    seconds = median([s for r in timed.rounds for s in r])
    why = _unshared(timed.provider, cold, roof.bound(size, count))
    share = None if why else roof.seconds(size, count) / seconds
    gflops = None if count is None else count / seconds / 1e9
    judged = timed.judged
    rates = (size / seconds / 1e9, gflops, share, why)
    return Speed(timed.provider.name, seconds, min(rounds), max(rounds), timed.calls, judged.checked, *rates, judged.wrong)


def _unshared(provider: Provider, cold: bool, bound: str) -> str:
    """Why a share of the roofline would say nothing; empty: it says something."""
    if provider.memory is not HOST:
        return f"the roofline is the processor's, and {provider.name} computes in memory {provider.memory.name!r}"
    if bound == "memory" and not cold:
        return "the inputs fit in the cache, and the roofline is memory's"
    return ""


def _ratio(first: Timed, second: Timed) -> Ratio:
    pairs = [median(b) / median(a) for a, b in zip(first.rounds, second.rounds, strict=True)]
    return Ratio(second.provider.name, median(pairs), min(pairs), max(pairs))
