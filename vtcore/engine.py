"""Requests in, tokens out: submit, step, abort."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import Any

from vtcore.deliver import conclude, deliver, refuse
from vtcore.dispatch import Dispatcher
from vtcore.errors import ArgumentError
from vtcore.intake import Intake
from vtcore.kvcache.stats import CacheStats
from vtcore.ops import log_softmax
from vtcore.outputs import Delta, Logprobs
from vtcore.request import Request, Status, Submission
from vtcore.rounding import Rounding
from vtcore.runner import Forward, Runner, Wanted
from vtcore.sampler import Decode, Sampled, describe, pick, sample
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.plan import Plan
from vtcore.scheduler.scheduler import Scheduler


@dataclass(frozen=True)
class EngineStats:
    """Sequences, now and so far."""

    waiting: int
    running: int
    preemptions: int
    cache: CacheStats


Scored = tuple[Wanted, list[Logprobs], Any]  # a prompt's rows: what each says of the token after it, and the logits if they are kept


class Engine:
    """Owns the queue, the model and the dispatchers. One thread at a time steps; any thread may submit and abort.

    `forward` runs the model's ops and `sampling` those that choose tokens: the second one never rounds."""

    def __init__(
        self, runner: Runner, scheduler: Scheduler, intake: Intake, forward: Dispatcher | Rounding, sampling: Dispatcher | None = None
    ) -> None:
        self.runner, self.scheduler, self.intake = runner, scheduler, intake
        self.forward, self.sampling = forward, sampling or forward
        self._running: dict[str, Submission] = {}
        self._lock = threading.RLock()

    def submit(self, prompt_token_ids: Sequence[int], params: SamplingParams, **options: Any) -> Submission:
        """Check a request and queue it. `options` are those of Intake.take."""
        return self.enqueue(self.intake.take(prompt_token_ids, params, **options))

    def enqueue(self, submission: Submission) -> Submission:
        """Queue what the intake has checked."""
        with self._lock:
            if submission.request_id in self._running:
                raise ArgumentError(f"request_id {submission.request_id!r} is running; give each running request an id of its own")
            self.scheduler.check_room(submission.requests)
            self._running[submission.request_id] = submission
            submission.submitted = time.monotonic()
            for request in submission.requests:
                self.scheduler.add(request)
        return submission

    def step(self) -> list[Delta]:
        """Plan who computes what, run it, and commit what came of it: the deltas of all sequences that got a token or ended."""
        with self._lock:
            if self.scheduler.idle:
                return []
            plan = self.scheduler.plan()
            _mark_started(plan)
            try:
                return self._commit(plan, *self._run(plan))
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

    def abort_all(self) -> None:
        """End every request."""
        with self._lock:
            for request_id in list(self._running):
                self.abort(request_id)

    def close(self) -> None:
        """End every request, and leave."""
        with self._lock:
            self.abort_all()
            self.leave()

    def leave(self) -> None:
        """Keep what outlives the process, and publish what happened. A second time changes nothing."""
        with self._lock:
            self.scheduler.kv.below.close()

    @property
    def idle(self) -> bool:
        """Whether every request has ended."""
        return self.scheduler.idle

    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:
        """Forget what the cache keeps of finished requests. False, and nothing is forgotten, while requests run; with
        `reset_running_requests` they give back their pages and compute again."""
        with self._lock:
            try:
                return self.scheduler.reset_prefix_cache(reset_running_requests)
            finally:
                self.scheduler.kv.below.tell()

    def stats(self) -> EngineStats:
        """How many sequences wait and run, how often one lost its pages, and what the cache holds and saved."""
        with self._lock:
            s = self.scheduler
            return EngineStats(len(s.waiting), len(s.running), s.num_preemptions, s.kv.stats())

    def _run(self, plan: Plan) -> tuple[list[Scored], list[Sampled]]:
        """All arithmetic of a step. Where it raises, every request is as before, but computes again what its cache held."""
        assert plan.scheduled, f"nothing can run: {plan.waits}"
        try:
            with self.forward:
                forward = self.runner.run(plan)
            with self.sampling:
                return [self._score(forward, w) for w in forward.wanted if _scores(w)], self._sample(forward)
        except BaseException:
            self.scheduler.rewind(plan)
            raise

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
            rows = log_softmax(logits).numpy()[: len(following)]
            said = [describe(row, i, request.params.prompt_logprobs or 0, self._decode) for row, i in zip(rows, following, strict=True)]
        return wanted, said, kept

    @property
    def _decode(self) -> Decode | None:
        tokenizer = self.intake.tokenizer
        return None if tokenizer is None else lambda i: str(tokenizer.decode([i], skip_special_tokens=False))

    def _commit(self, plan: Plan, scored: list[Scored], sampled: list[Sampled]) -> list[Delta]:
        now = time.monotonic()
        self.scheduler.commit(plan)
        for wanted, said, kept in scored:
            wanted.scheduled.request.submission.prompt_logprobs += said
            wanted.scheduled.request.submission.logits += [] if kept is None else [kept]
        steps = [
            (s.request, partial(refuse, s.request) if isnan(s.score) else partial(deliver, s.request, s.token_id, s.logprobs))
            for s in sampled
        ]
        steps += [(s.request, partial(conclude, s.request)) for s in plan.scheduled if s.request.complete]
        deltas, faults = list[Delta](), list[Exception]()
        for request, step in steps:
            try:
                deltas.append(self._settle(request, *step(), now))
            except Exception as fault:  # of one request's text: the others keep their tokens
                request.submission.fault = fault
                self.abort(request.submission.request_id)
                faults.append(fault)
        if faults:
            raise faults[0]
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


def _mark_started(plan: Plan) -> None:
    now = time.monotonic()
    for s in plan.scheduled:
        if s.request.submission.first_scheduled is None:
            s.request.submission.first_scheduled = now


def _scores(wanted: Wanted) -> bool:
    """Whether rows of logits are wanted for what they say, besides the last one for what to choose."""
    request = wanted.scheduled.request
    return request.submission.keep_logits or (request.scores_prompt and wanted.begin < len(request.prompt_token_ids) - 1)
