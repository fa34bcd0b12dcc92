"""Timing kernels in turns, each call with values that it has not seen, and holding the timed results against the definition afterwards.

There are as many sets of inputs as overflow the caches. Before each round all of them get new values in the same memory, so
that a result kept from earlier is wrong; of each round some results are kept, and judged when the clock has stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtcore.bench.op_calls import arrays_of
from vtcore.bench.op_inputs import Inputs
from vtcore.bench.op_judging import Judged, Kept, judge
from vtcore.conformance.judge import several
from vtcore.errors import ProviderError
from vtcore.op import Call, Op
from vtcore.provider import Decline, Provider
from vtcore.tensor import Tensor

Array = np.ndarray[Any, Any]
KEPT = 32 << 20  # bytes of results that are kept to be judged, besides the last


@dataclass(frozen=True)
class Effort:
    """How long a kernel is timed: at least so many rounds and seconds, and at most so many rounds. `judging`: seconds for the check."""

    rounds: int = 5
    seconds: float = 0.5
    most: int = 100
    judging: float = 5.0


@dataclass
class Timed:
    """One provider's calls. `rounds` holds the seconds of each call, a list a round."""

    provider: Provider
    rounds: list[list[float]] = field(default_factory=list)
    judged: Judged = field(default_factory=lambda: Judged(0))

    @property
    def calls(self) -> int:
        return sum(map(len, self.rounds))


def race(op: Op, base: Call, providers: Sequence[Provider], effort: Effort, count: int) -> list[Timed]:
    """Time the same calls on each provider in turns, round by round; then judge. ProviderError where one declines, with its reason."""
    runs = [_Run(op, base, p, count) for p in providers]
    for run in runs:
        run.round(timed=False)  # compiles, and fills what fills
    while not _enough(runs, effort):
        for run in runs if len(runs[0].timed.rounds) % 2 == 0 else reversed(runs):
            run.round(timed=True)
    for run in runs:
        run.timed.judged = judge(op, run.inputs, [*run.kept, run.last], effort.judging)
    return [run.timed for run in runs]


def _enough(runs: Sequence[_Run], effort: Effort) -> bool:
    rounds = len(runs[0].timed.rounds)
    long = all(sum(map(sum, run.timed.rounds)) >= effort.seconds for run in runs)
    return rounds >= effort.rounds and (long or rounds >= effort.most)


class _Run:
    """One provider at work."""

    def __init__(self, op: Op, base: Call, provider: Provider, count: int) -> None:
        self.op, self.provider, self.timed = op, provider, Timed(provider)
        self.inputs = Inputs(op, base, count)
        self.functions = [self._accepted(call) for call in self.inputs.calls]
        self.kept: list[Kept] = []
        self.last: Kept
        self._room = KEPT
        self.draw = np.random.default_rng()  # from the system: no kernel can know which results are judged

    def _accepted(self, call: Call) -> Callable[..., Any]:
        chosen = self.provider.accept(self.op, call)
        if isinstance(chosen, Decline):
            raise ProviderError(f"provider {self.provider.name!r} declines this call of {self.op.name}: {chosen.reason}")
        for name in self.inputs.constant:
            for weight in arrays_of(call[name]) if call[name] is not None else []:
                self.provider.prepare(self.op, weight)
        return chosen

    def round(self, timed: bool) -> None:
        """All sets once, with new values."""
        self.inputs.renew()
        seconds, keep = list[float](), int(self.draw.integers(self.inputs.count))
        for i, (function, call) in enumerate(zip(self.functions, self.inputs.calls, strict=True)):
            took, results = self._once(function, call)
            seconds.append(took)
            if timed and i == keep:
                self._keep(self._made(i, results, call))
            if timed and i == self.inputs.count - 1:
                self.last = self._made(i, results, call)
        if timed:
            self.timed.rounds.append(seconds)

    def _once(self, function: Callable[..., Any], call: Call) -> tuple[float, list[Any]]:
        memory = self.provider.memory
        for array in (a for value in call.values() for a in arrays_of(value)):
            array.storage.at(memory)
        memory.synchronize()
        start = time.perf_counter()
        out = function(**call)
        memory.synchronize()
        took = time.perf_counter() - start
        for name in self.op.writes:
            call[name].storage.wrote(memory)
        return took, several(out)

    def _made(self, number: int, results: list[Any], call: Call) -> Kept:
        written = {n: np.array(call[n].numpy()) for n in self.op.writes}
        return Kept(self.inputs.round, number, self.timed.calls + number, results, written)

    def _keep(self, made: Kept) -> None:
        self._room -= sum(t.nbytes for t in made.results if isinstance(t, Tensor)) + sum(a.nbytes for a in made.written.values())
        if self._room > 0 or not self.kept:
            self.kept.append(made)
