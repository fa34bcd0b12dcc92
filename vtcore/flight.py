"""A step that computes: on a thread of its own while the next one is planned, or at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from vtcore.outputs import Logprobs
from vtcore.runner import Prepared, Wanted
from vtcore.sampler import Sampled
from vtcore.scheduler.plan import Plan

Scored = tuple[Wanted, list[Logprobs], Any]  # a prompt's rows: what each says of the token after it, and the logits if they are kept


@dataclass(frozen=True)
class Computed:
    """What came of a step."""

    step: Prepared
    scored: list[Scored]
    sampled: list[Sampled]


@dataclass(frozen=True)
class Flight:
    """A step on its way."""

    step: Prepared
    future: Future[Computed]

    def wait(self) -> None:
        """Until it is done, or failed. An interrupt leaves it on its way."""
        wait([self.future])

    @property
    def orphaned(self) -> bool:
        """Whether everybody whom it computes for has gone."""
        return all(s.request.finished for s in self.step.plan.scheduled)


def mark_started(plan: Plan) -> None:
    """Note when each request was first computed for."""
    now = time.monotonic()
    for s in plan.scheduled:
        if s.request.submission.first_scheduled is None:
            s.request.submission.first_scheduled = now


class AtOnce(Executor):
    """Runs what it is given before it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Done, or failed."""
        future = Future[Any]()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # as a thread would: whoever waits for it gets it
            future.set_exception(error)
        return future


def executor(asynchronous: bool) -> Executor:
    """One step at a time, in the order given."""
    return ThreadPoolExecutor(1, "vtcore-step") if asynchronous else AtOnce()
