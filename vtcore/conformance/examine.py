"""A whole check of one provider by name: which cases, in which process, with which known gaps; the record of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter

from vtcore import __version__
from vtcore.conformance.case import Case, cases
from vtcore.conformance.check import Bench, Here, check, saved, wanted
from vtcore.conformance.fresh import fresh
from vtcore.conformance.fuzz import hypothesis_here
from vtcore.conformance.gaps import Gaps
from vtcore.conformance.isolated import SECONDS, Isolated
from vtcore.conformance.record import Record
from vtcore.conformance.saved import save
from vtcore.conformance.verdict import Verdict
from vtcore.errors import ArgumentError
from vtcore.providers import BUILT_IN
from vtcore.simt.provider import found


@dataclass(frozen=True)
class Plan:
    """What is asked for besides the provider and the ops."""

    seed: int = 0
    fuzz: int = 0  # drawn calls an op
    case: str | None = None  # only this one of each op: "3", "fresh2"
    cases: Path | None = None  # saved ones instead of samples: a directory, or a file
    isolate: bool | None = None  # in a process of its own; None: unless it is built in
    seconds: float | None = None  # for one case, in a process of its own
    gaps: Path | None = None
    save: Path | None = None  # a directory for the inputs of failing cases


@dataclass(frozen=True)
class About:
    """A provider that was loaded: its facts, and the ops that it has a kernel for (none: it takes them in its own way)."""

    facts: Mapping[str, str]
    kernels: Sequence[str]


def examine(provider: str, ops: Sequence[str], plan: Plan, told: Callable[[Verdict], None] = lambda verdict: None) -> Record:
    """Check a provider by name or path; `told` hears of each verdict at once. Raises ArgumentError, and what loading a provider raises."""
    wanted(ops)
    if plan.cases is not None and (plan.fuzz or plan.case is not None):
        raise ArgumentError("saved cases are run as they are: leave --fuzz and --case away, or --cases")
    if plan.case is not None and plan.fuzz:
        raise ArgumentError("one case is run without drawn ones: leave --fuzz away, or --case")
    if plan.fuzz:
        hypothesis_here()
    gaps, begin = Gaps(plan.gaps), perf_counter()
    if plan.save is not None:
        plan.save.mkdir(parents=True, exist_ok=True)
    with bench(provider, plan) as (runs, about):
        record = Record(provider, plan.seed, plan.fuzz, about.facts, __version__, cases="" if plan.cases is None else str(plan.cases))
        for verdict in _verdicts(runs, ops, plan):
            record.verdicts.append(gaps.seen(verdict))
            told(record.verdicts[-1])
            if plan.save is not None and verdict.bad:
                record.saved[verdict.case.label] = _saved(verdict.case, plan.save)
    record.stale = gaps.stale(record.verdicts, plan.case is None and plan.cases is None)
    record.seconds = perf_counter() - begin
    return record


def listed(ops: Sequence[str], seed: int) -> Iterator[Case]:
    """Every case that a check without drawn calls runs."""
    for op in wanted(ops or None):
        yield from chain(cases(op, seed), fresh(op, seed))


@contextmanager
def bench(provider: str, plan: Plan) -> Iterator[tuple[Bench, About]]:
    """Who runs the cases, and what is known of the provider. What is not built in runs in a process of its own, which it may end."""
    isolate = (provider not in BUILT_IN or plan.seconds is not None) if plan.isolate is None else plan.isolate
    if plan.seconds is not None and not isolate:
        raise ArgumentError("a time limit needs a process that can be ended: leave --no-isolate away, or --timeout")
    if isolate:
        with Isolated(provider, plan.seconds or SECONDS) as isolated:
            yield isolated, About(isolated.facts, isolated.kernels)
        return
    here = found(provider)
    try:
        yield Here(here), About(here.facts, sorted(here.kernels))
    finally:
        here.close()


def _verdicts(runs: Bench, ops: Sequence[str], plan: Plan) -> Iterator[Verdict]:
    if plan.cases is not None:
        yield from saved(runs, str(plan.cases), ops)
        return
    if plan.case is None:
        yield from check(runs, ops or None, plan.seed, plan.fuzz)
        return
    chosen = [c for c in listed(ops, plan.seed) if c.label.partition("#")[2] == plan.case]
    if not chosen:
        raise ArgumentError(f"no case {plan.case!r}; `vtcore check {' '.join(['PROVIDER', *ops])} --list` shows those that there are")
    yield from map(runs.run, chosen)


def _saved(case: Case, directory: Path) -> str:
    path = directory / f"{case.label.replace('#', '-')}.npz"
    save(case, path)
    return str(path)
