"""A provider against the ops' definitions, call by call: the samples of each op, fresh calls beside them, and calls that are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import prod
from typing import Any, Protocol

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.conformance import trial
from vtcore.conformance.case import Case, cases
from vtcore.conformance.fresh import fresh
from vtcore.conformance.fuzz import fuzzed
from vtcore.conformance.judge import Answer
from vtcore.conformance.saved import load_all
from vtcore.conformance.trial import run
from vtcore.conformance.verdict import Verdict
from vtcore.errors import ArgumentError, nearest
from vtcore.op import REGISTRY, Op
from vtcore.provider import Provider
from vtcore.providers.arrays import Arrays

__all__ = ["Bench", "Here", "check", "check_kernel", "run", "saved", "wanted"]
SOAK = 100  # calls more of one case of each op: what is right at first only is seen then


class Bench(Protocol):
    """Who runs cases on a provider: this process, or a child."""

    def run(self, case: Case) -> Verdict:
        """The verdict of one case."""
        ...

    def repeat(self, case: Case, times: int) -> Verdict:
        """The verdict of one case called many times."""
        ...


class Here:
    """A provider in this process."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def run(self, case: Case) -> Verdict:
        return trial.run(self.provider, case)

    def repeat(self, case: Case, times: int) -> Verdict:
        return trial.repeat(self.provider, case, times)


def check(provider: Provider | Bench, ops: Iterable[str] | None = None, seed: int = 0, fuzz: int = 0) -> Iterator[Verdict]:
    """Every sample of the named ops (None: of all) on a provider, fresh calls beside them, and `fuzz` drawn calls an op.

    The same seed gives the same calls. ArgumentError where there is no such op."""
    bench = Here(provider) if isinstance(provider, Provider) else provider
    for op in wanted(ops):
        yield from _checked(bench, op, seed, fuzz)


def saved(provider: Provider | Bench, path: str, ops: Iterable[str] | None = None) -> Iterator[Verdict]:
    """The cases of a file or a directory, of the named ops (None or empty: of all). ArgumentError where there are none."""
    bench = Here(provider) if isinstance(provider, Provider) else provider
    names = {op.name for op in wanted(ops or None)}
    found = [case for case in load_all(path) if case.op.name in names]
    if not found:
        raise ArgumentError(f"{path} holds no case of {', '.join(sorted(names))}")
    yield from map(bench.run, found)


def check_kernel(op: str | Op, function: Callable[..., Any], seed: int = 0, fuzz: int = 0) -> list[Verdict]:
    """One function of NumPy arrays against one op: `vtcore.providers.arrays` says how it is called."""
    provider = Arrays(getattr(function, "__name__", "kernel"))
    name = op if isinstance(op, str) else op.name
    provider.kernel(wanted([name])[0])(function)
    return list(check(provider, [name], seed, fuzz))


def wanted(ops: Iterable[str] | None) -> list[Op]:
    """Ops by name (None: all). ArgumentError where there is no such op."""
    names = sorted(REGISTRY) if ops is None else list(ops)
    for name in names:
        if name not in REGISTRY:
            raise ArgumentError(f"there is no op {name!r}{nearest(name, REGISTRY)}; there are {', '.join(sorted(REGISTRY))}")
    return [REGISTRY[name] for name in names]


def _checked(bench: Bench, op: Op, seed: int, fuzz: int) -> Iterator[Verdict]:
    passed: list[Case] = []
    declined: set[int] = set()
    for case in chain(cases(op, seed), fresh(op, seed)):
        verdict = bench.run(case)
        passed += [case] if verdict.outcome == "pass" else []
        declined |= {case.number} if verdict.outcome == "declined" and case.source == "sample" else set()
        yield verdict
    telling = next((c for c in sorted(passed, key=_work) if not Answer(op, c.call).empty), None)
    if telling is not None and (verdict := bench.repeat(telling, SOAK)).bad:
        yield verdict
    if fuzz:
        yield from fuzzed(bench, op, seed, fuzz, declined)


def _work(case: Case) -> int:
    """By what a call is quick to repeat."""
    return sum(prod(v.shape) for v in case.call.values() if hasattr(v, "shape"))
