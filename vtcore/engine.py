"""Requests in, tokens out: submit, step, abort."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import Any

from vtcore.deliver import conclude, deliver, ended_by_token, refuse
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError, VtcoreError
from vtcore.flight import Computed, Flight, Scored, executor, mark_started
from vtcore.intake import Intake
from vtcore.kvcache.stats import CacheStats
from vtcore.ops import log_softmax
from vtcore.outputs import Delta, Logprobs
from vtcore.request import Request, Status, Submission
from vtcore.rounding import Rounding
from vtcore.runner import Forward, Prepared, Runner, Wanted
from vtcore.sampler import Sampled, describe, pick, sample, spelling
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.scheduler import Scheduler
from vtcore.undisturbed import Undisturbed


@dataclass(frozen=True)
class EngineStats:
    """Sequences, now and so far."""

    waiting: int
    running: int
    preemptions: int
    cache: CacheStats


class Engine:
    """Owns the queue, the model and the dispatchers. One thread at a time steps; any thread may submit and abort.

    `forward` runs the model's ops and `sampling` those that choose tokens: the second one never rounds."""

    def __init__(
        self, runner: Runner, scheduler: Scheduler, intake: Intake, forward: Dispatcher | Rounding, sampling: Dispatcher | None = None
    ) -> None:
        self.runner, self.scheduler, self.intake = runner, scheduler, intake
        self.forward, self.sampling = forward, sampling or forward
        self._decode = spelling(intake.tokenizer)
        self._running: dict[str, Submission] = {}
        self._lock = Undisturbed()
        self._executor = executor(scheduler.config.async_scheduling)
        self._flight: Flight | None = None
        self._closed = False
        self._unplanned = 0  # calls of step in a row that could not even plan
        self._told: list[Delta] = []  # by a step that landed early: the next call of step gives them

    def submit(self, prompt_token_ids: Sequence[int], params: SamplingParams, **options: Any) -> Submission:
        """Check a request and queue it. `options` are those of Intake.take."""
        return self.enqueue(self.intake.take(prompt_token_ids, params, **options))

    def enqueue(self, submission: Submission) -> Submission:
        """Queue what the intake has checked. VtcoreError once the engine is closed."""
        with self._lock:
            if self._closed:
                raise VtcoreError("this engine is closed")
            if submission.request_id in self._running:
                raise ArgumentError(f"request_id {submission.request_id!r} is running; give each running request an id of its own")
            self.scheduler.check_room(submission.requests)
            self._running[submission.request_id] = submission
            submission.submitted = time.monotonic()
            for request in submission.requests:
                self.scheduler.add(request)
        return submission

    def step(self) -> list[Delta]:
        """Plan who computes what, run it, and commit what came of it: the deltas of all sequences that got a token or ended.

        With async_scheduling the plan is made while the step before it computes; then that one is waited for and committed, and what was
        planned computes from then on. A fault of the step is raised; one of a single request ends that, and is its submission's `fault`.
        What can't be planned twice in a row never will be: with the second fault every request ends."""
        with self._lock:
            try:
                plan = self._planned()
                return self._commit(self._run(plan))
            finally:
                self.scheduler.kv.below.tell()

    def abort(self, request_id: str) -> None:
        """End a request and free what it holds, at once; nothing for an id that isn't running."""
        with self._lock:
            if (submission := self._running.get(request_id)) is not None:
                for request in submission.requests:
                    self.scheduler.finish(request, Status.ABORTED)
                submission.ended = time.monotonic()
                del self._running[request_id]

    def withdraw(self, submissions: Sequence[Submission]) -> None:
        """Abort what is left of these, and rest."""
        with self._lock:
            for submission in submissions:
                self.abort(submission.request_id)
            self.rest()

    def abort_all(self, fault: Exception | None = None) -> None:
        """End every request, for the reason given if it is a fault."""
        with self._lock:
            for request_id, submission in list(self._running.items()):
                submission.fault = fault
                self.abort(request_id)
            self.rest()

    def rest(self) -> None:
        """Where every request has ended, wait for what is still being computed for one that left."""
        with self._lock:
            if self.scheduler.idle:
                self._land()

    def close(self) -> None:
        """End every request, whose fault tells why, and leave. Nothing can be queued any more."""
        with self._lock:
            self._closed = True
            self.abort_all(VtcoreError("the engine was closed before the request ended"))
            self.leave()
            self._executor.shutdown()

    def leave(self) -> None:
        """Keep what outlives the process, and publish what happened. A second time changes nothing."""
        with self._lock:
            if self._flight is not None:
                self._await(self._flight)
            self.scheduler.kv.below.close()

    @property
    def idle(self) -> bool:
        """Whether every request has ended, and nothing is computed any more."""
        return self.scheduler.idle and self._flight is None

    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:
        """Forget what the cache keeps of finished requests. False, and nothing is forgotten, while requests run; with
        `reset_running_requests` they give back their pages and compute again."""
        with self._lock:
            try:
                self._told = self._commit(self._land())
                return self.scheduler.reset_prefix_cache(reset_running_requests)
            finally:
                self.scheduler.kv.below.tell()

    def stats(self) -> EngineStats:
        """How many sequences wait and run, how often one lost its pages, and what the cache holds and saved."""
        with self._lock:
            s = self.scheduler
            return EngineStats(len(s.waiting), len(s.running), s.num_preemptions, s.kv.stats())

    def _planned(self) -> Prepared | None:
        """As `_plan`. Nobody knows whose fault it is when that raises, so that nobody can be left out of the next one."""
        try:
            plan = self._plan()
        except Exception as fault:
            self._unplanned += 1
            if self._unplanned > 1:
                self.abort_all(fault)
            raise
        self._unplanned = 0
        return plan

    def _plan(self) -> Prepared | None:
        """The next step. None where nothing is left to do, or it can't be planned before the one in flight has landed."""
        s = self.scheduler
        if s.idle:
            return None
        if self._flight is None:
            plan = s.plan()
            assert plan.scheduled, f"nothing can run: {plan.waits}"
            return self.runner.prepare(plan)
        # pages that go to a tier below, or come from there, are copied while they are planned: never beside a forward
        ahead = None if s.kv.below.offload else s.plan_ahead()
        return self.runner.prepare(ahead) if ahead is not None and ahead.scheduled else None

    def _run(self, step: Prepared | None) -> Computed | None:
        """Wait for the step in flight and start this one, and without async_scheduling wait for it too: what came of it."""
        computed = self._land()
        if step is not None:
            gone = {s.request for s in step.plan.scheduled if s.request.status is not Status.RUNNING}  # after a fault nobody runs
            self._launch(step, gone if computed is None else gone | _ended(computed))
        return computed if self.scheduler.config.async_scheduling else self._land()

    def _launch(self, step: Prepared, gone: set[Request]) -> None:
        """Have a step computed, without those who are not to be computed any more."""
        plan = step.plan.without(gone)
        if plan.scheduled:
            step = step if plan == step.plan else self.runner.prepare(plan)
            mark_started(plan)
            self.scheduler.launch(plan)
            self._flight = Flight(step, self._executor.submit(self._compute, step.fill()))

    def _land(self) -> Computed | None:
        """Wait for the step in flight, and append what it chose. None where there is none.

        Where it raised, every request is as before, but computes again what its cache held."""
        if (flight := self._flight) is None:
            return None
        self._await(flight)
        self._flight = None
        try:
            computed = flight.future.result()
        except BaseException:
            self.scheduler.rewind(flight.step.plan, flight.step.slots, flight.step.copies)
            if flight.orphaned:
                return None
            raise
        self.scheduler.land(flight.step.plan)
        for s in computed.sampled:
            if not s.request.finished and not isnan(s.score):
                s.request.output_token_ids.append(s.token_id)
        return computed

    def _await(self, flight: Flight) -> None:
        """Until it is done. An interrupt leaves it on its way; where it computed at once, it has landed before one is told."""
        if flight.future.done():
            return flight.wait()
        with self._lock.disturbable():
            flight.wait()

    def _compute(self, step: Prepared) -> Computed:
        """All arithmetic of a step."""
        with self._lock.disturbable(), self.forward:
            forward = self.runner.run(step)
        with self._lock.disturbable(), self.sampling:
            return Computed(step, [self._score(forward, w) for w in forward.wanted if w.scores], self._sample(forward))

    def _sample(self, forward: Forward) -> list[Sampled]:
        last = [w for w in forward.wanted if w.samples]
        if not last:
            return []
        rows = [w.rows[-1] for w in last]
        likeliest = None if forward.likeliest is None else forward.likeliest.numpy()[rows]
        return sample(pick(forward.logits, rows), [w.scheduled.request for w in last], self._decode, likeliest)

    def _score(self, forward: Forward, wanted: Wanted) -> Scored:
        """What a prompt's rows of logits say, each about the token after its own."""
        request, logits = wanted.scheduled.request, pick(forward.logits, wanted.rows)
        kept = logits.numpy().copy() if request.submission.keep_logits else None
        said = list[Logprobs]()
        if request.scores_prompt:
            following = request.prompt_token_ids[wanted.begin + 1 : wanted.begin + wanted.count + 1]
            said = describe(
                log_softmax(logits)[: len(following)], following, [request.params.prompt_logprobs or 0] * len(following), self._decode
            )
        return wanted, said, kept

    def _commit(self, computed: Computed | None) -> list[Delta]:
        """What a step that landed means for its sequences, but for those that ended while it computed."""
        deltas, now = self._told, time.monotonic()
        self._told = []
        for request, step in [] if computed is None else _steps(computed):
            try:
                if not request.finished:
                    deltas.append(self._settle(request, *step(), now))
            except Exception as fault:  # of one request's text: the others keep their tokens
                request.submission.fault = fault
                self.abort(request.submission.request_id)
        return deltas

    def _settle(self, request: Request, delta: Delta, status: Status | None, now: float) -> Delta:
        """A delta on its way out; with the last one the sequence, and with its last sequence the request, is over."""
        submission = request.submission
        if delta.token_ids and submission.first_token is None:
            submission.first_token = now
        submission.deltas.append(delta)
        if status is not None:
            self.scheduler.finish(request, status)
        if submission.finished:
            submission.ended = now
            del self._running[submission.request_id]
        return delta


def _steps(computed: Computed) -> Iterator[tuple[Request, Callable[[], tuple[Delta, Status | None]]]]:
    """What each sequence has to be told."""
    for wanted, said, kept in computed.scored:
        submission = wanted.scheduled.request.submission
        submission.prompt_logprobs += said
        submission.logits += [] if kept is None else [kept]
    for s in computed.sampled:
        yield s.request, partial(refuse, s.request) if isnan(s.score) else partial(deliver, s.request, s.token_id, s.logprobs)
    for part in computed.step.plan.scheduled:
        if part.whole and not part.request.samples:
            yield part.request, partial(conclude, part.request)


def _ended(computed: Computed) -> set[Request]:
    """Those for whom a further token would be computed in vain, as far as that shows without their texts."""
    return {s.request for s in computed.sampled if isnan(s.score) or ended_by_token(s.request, s.token_id)[0] is not None}
