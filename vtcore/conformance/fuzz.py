"""Drawn calls: hypothesis varies an op's samples, and of a failing call finds the smallest that still fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from vtcore.conformance.case import Case, cases
from vtcore.conformance.steady import steady
from vtcore.conformance.vary import SPECIAL, Variation
from vtcore.conformance.verdict import Verdict
from vtcore.errors import ArgumentError
from vtcore.op import Op

if TYPE_CHECKING:
    from vtcore.conformance.check import Bench

Choice = TypeVar("Choice")
LARGEST, SMALLER = 40, 12  # sizes of axes: of an op that has up to four, and of others, whose work is their product
FEW = 4
AFTERWARDS = 400  # calls at most to find a smaller one that fails
ENDED = 8  # calls at most that end a process, which takes a second, or the whole time limit


class Enough(BaseException):
    """No more calls are wanted. (No Exception, which hypothesis would take for a failure of the test.)"""


class Failed(Exception):
    """A drawn call fails."""


class Drawn:
    """Choices by hypothesis."""

    def __init__(self, data: Any) -> None:
        from hypothesis import strategies

        self.data, self.strategies = data, strategies

    def pick(self, options: Sequence[Choice]) -> Choice:
        return options[self.integer(0, len(options) - 1)]

    def integer(self, low: int, high: int) -> int:
        return int(self.data.draw(self.strategies.integers(low, high)))


def fuzzed(bench: Bench, op: Op, seed: int, count: int, declined: Set[int] = frozenset()) -> Iterator[Verdict]:
    """The verdicts of up to `count` drawn calls, which vary the samples that were not declined. The first that fails is the last, made as
    small as it goes.

    Raises ArgumentError where hypothesis is not installed."""
    every = sorted(cases(op, seed), key=_elements)
    samples = [c for c in every if c.number not in declined] or every
    search = Search(bench, op, seed, samples)
    search.run(count)
    yield from search.passed
    if search.failed:
        yield min(search.failed, key=lambda v: (_elements(v.case), len(repr(v.case))))


class Search:
    """One op's drawn calls so far."""

    def __init__(self, bench: Bench, op: Op, seed: int, samples: list[Case]) -> None:
        self.bench, self.op, self.seed, self.samples = bench, op, seed, samples
        self.passed: list[Verdict] = []
        self.failed: list[Verdict] = []
        self.since = 0  # calls since the first failure

    def run(self, count: int) -> None:
        """Draw, until enough passed, or until a failing call gets no smaller."""
        hypothesis = hypothesis_here()
        quiet = hypothesis.settings(
            max_examples=count, database=None, deadline=None, verbosity=hypothesis.Verbosity.quiet, report_multiple_bugs=False,
            suppress_health_check=list(hypothesis.HealthCheck), phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        )  # fmt: skip
        test = hypothesis.given(hypothesis.strategies.data())(lambda data: self._one(data, hypothesis.reject))
        try:
            hypothesis.seed(self.seed)(quiet(test))()
        except (Enough, Failed, hypothesis.errors.HypothesisException):
            return  # what failed is in self.failed; that hypothesis finds a kernel flaky, or no call that the op takes, is no news

    def _one(self, data: Any, reject: Any) -> None:
        case = Case(self.op, drawn(self.op, self.samples, Drawn(data)), self.seed, len(self.passed), "drawn")
        if not _told(case):
            reject()
        verdict = self.bench.run(case)
        self.since += bool(self.failed)
        if verdict.bad:
            self.failed.append(verdict)
        elif not self.failed:
            self.passed.append(verdict.without_arrays())
        ended = sum(v.kind in ("crashed", "timed_out") for v in self.failed)
        if self.since >= AFTERWARDS or ended >= ENDED:
            raise Enough
        if verdict.bad:
            raise Failed


def drawn(op: Op, samples: list[Case], choices: Any) -> dict[str, Any]:
    """One call: a sample in which everything may be changed."""
    variation = Variation(op, samples, choices)
    variation.sizes(0, LARGEST if len(variation.axes()) <= FEW else SMALLER)
    variation.scalars()
    variation.dtypes()
    variation.values()
    variation.layouts()
    special = choices.pick((None, None, None, *SPECIAL))
    if special is not None:
        variation.special(special)
    return variation.call


def _told(case: Case) -> bool:
    """Whether the call says something of a kernel. The definition's own failure on a drawn call is no fault of the kernel."""
    try:
        return steady(case)
    except Exception:  # an op's rules let through what its definition can't take: its own tests look for that
        return False


def _elements(case: Case) -> int:
    return sum(prod(v.shape) for v in case.call.values() if hasattr(v, "shape"))


def hypothesis_here() -> Any:
    """The library. Raises ArgumentError where it is not installed."""
    try:
        import hypothesis
        import hypothesis.errors
    except ImportError:
        raise ArgumentError("drawing calls needs hypothesis: pip install 'vtcore[check]'") from None
    return hypothesis
