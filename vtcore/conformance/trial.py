"""One case on one provider: run, again, on other values in the same memory, and once more. Every answer must be right, and one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from vtcore.conformance.case import Case
from vtcore.conformance.guards import Outputs
from vtcore.conformance.judge import Answer, Fault, judge, several
from vtcore.conformance.laid import Arguments
from vtcore.conformance.twin import alone, twin
from vtcore.conformance.verdict import Outcome, Verdict
from vtcore.dispatch import Dispatcher
from vtcore.errors import DeclinedError
from vtcore.op import Call, Op
from vtcore.provider import Function, Provider

Bits = list[bytes]
PATIENCE = 5.0  # seconds that repeating one call may take: a slow kernel is repeated less often


class Unheld(Dispatcher):
    """Takes any result: judging it is the check's own work."""

    def call(self, provider: Provider, op: Op, function: Function, call: Call) -> Any:
        """What the function returns."""
        return function(**call)


class Declined(Exception):
    """The provider declined a call; the message is its reason."""


class Trial:
    """A case's arguments in memory, and the provider's kernel on them."""

    def __init__(self, provider: Provider, case: Case) -> None:
        self.provider, self.case = provider, case
        self.arguments = Arguments(case)
        self.seconds = 0.0

    def once(self, call: Call, answer: Answer) -> tuple[Fault, Bits, list[Any]]:
        """The kernel on a call of the case's shapes: what is wrong with it, its bits, its results."""
        self.arguments.fill(call)
        outputs = Outputs(self.provider.memory)
        with outputs.guard():
            begin = perf_counter()
            results = self._called()
            self.seconds = self.seconds or perf_counter() - begin
        fault = judge(self.case, answer, self.arguments, results, outputs)
        return fault, [] if fault.kind and fault.kind != "wrong_value" else self._bits(results), several(results)

    def _called(self) -> Any:
        dispatcher = Unheld([self.provider], strict=True)
        try:
            with dispatcher:
                return self.case.op(**self.arguments.tensors())
        except DeclinedError:
            raise Declined(next(iter(dispatcher.declines)).reason) from None

    def _bits(self, results: Any) -> Bits:
        written = [laid.values() for n, laid in self.arguments.arrays() if n in self.case.op.writes]
        return [r.numpy().tobytes() for r in several(results)] + [w.tobytes() for w in written]


def run(provider: Provider, case: Case) -> Verdict:
    """The verdict of one case. Whatever a kernel raises is one too."""
    return _verdict(provider, case, lambda trial: _tried(trial, case))


def glance(provider: Provider, case: Case) -> Verdict:
    """The verdict of one call, and no more: for many providers that differ little."""
    return _verdict(provider, case, lambda trial: (trial.once(case.call, Answer(case.op, case.call))[0], case))


def repeat(provider: Provider, case: Case, times: int) -> Verdict:
    """As `run`, for a kernel that is right at first only: so many calls more, each with the same bits."""
    return _verdict(provider, case, lambda trial: (_repeated(trial, case, times), case))


def _verdict(provider: Provider, case: Case, tried: Callable[[Trial], tuple[Fault, Case]]) -> Verdict:
    trial = Trial(provider, case)
    try:
        fault, shown = tried(trial)
    except Declined as declined:
        return Verdict(case, provider.name, "declined", str(declined))
    except Exception as error:  # a kernel may raise anything; a check goes on with the next case
        return Verdict(case, provider.name, "error", f"{type(error).__name__}: {error}", kind="raised")
    outcome: Outcome = "fail" if fault.kind else "pass"
    return Verdict(shown, provider.name, outcome, fault.reason, fault.worst, fault.kind, trial.seconds, case.op.tolerance.where)


def _tried(trial: Trial, case: Case) -> tuple[Fault, Case]:
    answer = Answer(case.op, case.call)
    first, bits, results = trial.once(case.call, answer)
    if first.kind:
        return first, case
    again = trial.once(case.call, answer)
    if again[1] != bits:
        return _unsteady(again, trial.once(case.call, answer)), case
    if (other := twin(case)) is not None:
        fault, shown, others = _other(trial, other)
        if not fault.kind:
            fault, shown = _apart(trial, other, [bits, others])
        if fault.kind:
            return fault, shown
    if [r.numpy().tobytes() for r in results] != bits[: len(results)]:
        return Fault("stateful", "an earlier result was overwritten by a later call; a result must be fresh"), case
    last = trial.once(case.call, answer)
    if last[1] != bits:
        return Fault(
            "stateful", f"after a call with other values, the first one gives something else: {last[0].reason or 'other bits'}"
        ), case
    return first, case


def _unsteady(second: tuple[Fault, Bits, list[Any]], third: tuple[Fault, Bits, list[Any]]) -> Fault:
    """What it is called when a second call gives other bits than the first: it depends on whether the third agrees with the second."""
    if second[0].kind not in ("", "wrong_value"):
        return second[0]
    words = f"the same call gave other bits the second time: {second[0].reason or 'within the tolerance'}"
    return Fault("stateful" if third[1] == second[1] else "nondeterministic", words, second[0].worst)


def _other(trial: Trial, other: Case) -> tuple[Fault, Case, Bits]:
    """Other values in the same Tensors. What is wrong there, and right in memory of its own, was kept from the call before."""
    answer = Answer(other.op, other.call)
    fault, bits, _ = trial.once(other.call, answer)
    if fault.kind == "wrong_value" and not Trial(trial.provider, other).once(other.call, answer)[0].kind:
        return replace(fault, kind="stateful", reason=f"other values in the same memory give a wrong result: {fault.reason}"), other, bits
    return fault, other, bits


def _apart(trial: Trial, other: Case, earlier: list[Bits]) -> tuple[Fault, Case]:
    """One argument with the other values, after calls that were right and gave `earlier`."""
    found = alone(trial.case, other)
    if found is None:
        return Fault(""), other
    name, mixed = found
    fault, got, _ = trial.once(mixed.call, Answer(mixed.op, mixed.call))
    if fault.kind != "wrong_value":
        return fault, mixed
    kind, words = ("stateful", "an earlier call's result") if got in earlier else (fault.kind, "a wrong result")
    return replace(fault, kind=kind, reason=f"other values in {name} alone give {words}: {fault.reason}"), mixed


def _repeated(trial: Trial, case: Case, times: int) -> Fault:
    answer = Answer(case.op, case.call)
    first, bits, _ = trial.once(case.call, answer)
    until = perf_counter() + PATIENCE
    for i in range(times):
        if perf_counter() > until:
            break
        fault, other, _ = trial.once(case.call, answer)
        if other != bits:
            return Fault("stateful", f"call {i + 2} of the same gave other bits: {fault.reason or 'within the tolerance'}", fault.worst)
    return first
