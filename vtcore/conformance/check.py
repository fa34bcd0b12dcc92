"""A provider against the ops' definitions: each sample of each op is run by both, and everything that a call may change is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

import vtcore.ops  # noqa: F401  (registers the ops)
from vtcore.conformance.case import Case, as_tensors, cases, laid
from vtcore.conformance.judge import judge
from vtcore.conformance.saved import load_all
from vtcore.conformance.verdict import Outcome, Verdict
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError, DeclinedError
from vtcore.op import REGISTRY, Call, Op
from vtcore.provider import Function, Provider


class Unheld(Dispatcher):
    """Takes any result: judging it is the check's own work."""

    def call(self, provider: Provider, op: Op, function: Function, call: Call) -> Any:
        """What the function returns."""
        return function(**call)


def check(provider: Provider, ops: Iterable[str] | None = None, seed: int = 0) -> Iterator[Verdict]:
    """Every sample of the named ops (None: of all) on a provider. ArgumentError where there is no such op."""
    for op in wanted(ops):
        for case in cases(op, seed):
            yield run(provider, case)


def saved(provider: Provider, path: str, ops: Iterable[str] | None = None) -> Iterator[Verdict]:
    """The cases of a file or a directory, of the named ops (None or empty: of all). ArgumentError where there are none."""
    names = {op.name for op in wanted(ops or None)}
    found = [case for case in load_all(path) if case.op.name in names]
    if not found:
        raise ArgumentError(f"{path} holds no case of {', '.join(sorted(names))}")
    for case in found:
        yield run(provider, case)


def wanted(ops: Iterable[str] | None) -> list[Op]:
    """Ops by name (None: all). ArgumentError where there is no such op."""
    names = sorted(REGISTRY) if ops is None else list(ops)
    for name in names:
        if name not in REGISTRY:
            raise ArgumentError(f"there is no op {name!r}; there are {', '.join(sorted(REGISTRY))}")
    return [REGISTRY[name] for name in names]


def run(provider: Provider, case: Case) -> Verdict:
    """One case: the provider's kernel on Tensors, the definition on copies of the same arrays."""
    arguments, dispatcher = laid(case), Unheld([provider], strict=True)
    begin = perf_counter()
    try:
        with dispatcher:
            results = case.op(**{n: as_tensors(v) for n, v in arguments.items()})
        seconds = perf_counter() - begin
        fault = judge(case, arguments, results)
    except DeclinedError:
        return Verdict(case, provider.name, "declined", next(iter(dispatcher.declines)).reason)
    except Exception as error:  # a kernel may raise anything; a check goes on with the next case
        return Verdict(case, provider.name, "error", f"{type(error).__name__}: {error}", kind="raised")
    outcome: Outcome = "fail" if fault.kind else "pass"
    return Verdict(case, provider.name, outcome, fault.reason, fault.worst, fault.kind, seconds, case.op.tolerance.where)
