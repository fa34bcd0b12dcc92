"""Who computes what next: one token budget a step, running sequences first, then waiting ones in the order that the policy gives.

There is no prefill phase: a sequence has so many tokens, so many of them are computed, and a step hands out tokens until the budget is
spent. A long prompt is thereby cut into chunks. When pages run out, the sequence of the highest rank gives its own back and computes
again later what the cache no longer has: its tokens stay, so nothing that was shown changes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from vtcore.errors import QueueFullError
from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request, Status
from vtcore.scheduler.budget import Budget
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.draft import Draft, TooEarlyError
from vtcore.scheduler.plan import Plan
from vtcore.scheduler.policies import POLICIES

Array = np.ndarray[Any, Any]
PASSED = 128  # sequences that a step passes over at most, so that a long queue costs no more than it must


class Scheduler:
    """Owns the queue, the running list and, through the manager, the pages. No arithmetic and no tensors.

    Both lists are sorted by rank. Whoever is first in the running list can take any other's pages, and gets a token in every step."""

    def __init__(self, config: SchedulerConfig, kv: KVCacheManager) -> None:
        self.config, self.kv, self.policy = config, kv, POLICIES[config.scheduling_policy]()
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.num_preemptions = 0
        self._arrivals = count()
        self._begun = 0

    def check_room(self, requests: Sequence[Request]) -> None:
        """Raises QueueFullError where the queue may not hold these as well."""
        seats = self.config.max_num_seqs - len(self.running)
        waiting = [*self.waiting, *requests][seats:] if seats < len(self.waiting) + len(requests) else []
        tokens = sum(len(r.prompt_token_ids) for r in waiting) if self.config.max_num_queued_tokens is not None else 0
        for name, held in (("max_num_queued_reqs", len(waiting)), ("max_num_queued_tokens", tokens)):
            most = getattr(self.config, name)
            if most is not None and held > most:
                what = "sequences" if name == "max_num_queued_reqs" else "tokens of prompts"
                raise QueueFullError(
                    f"{held} {what} would wait beside the {self.config.max_num_seqs} sequences that may run; {name} is {most}: "
                    "try again once some are done, or raise it"
                )

    def add(self, request: Request) -> None:
        """Queue a sequence. Whoever calls has made sure that the pools hold it alone."""
        submission = request.submission
        request.arrival, request.begun_before = next(self._arrivals), self._begun
        forks = len(submission.requests) > 1
        request.chain = self.kv.chain(request.tokens, len(request.prompt_token_ids), forks, submission.identity)
        insort(self.waiting, request, key=self.policy.rank)

    def plan(self) -> Plan:
        """The next step. Asked again without a commit in between, it plans the same work: what it allocated is kept."""
        return self._plan(ahead=False)

    def plan_ahead(self) -> Plan | None:
        """The step after the one that computes: it counts on what that one computes, and on one token from each that it brings through.

        None where a sequence would have to give up its pages: ask `plan` once the step has landed. What it allocated is kept."""
        try:
            return self._plan(ahead=True)
        except TooEarlyError:
            return None

    def launch(self, plan: Plan) -> None:
        """A plan's forward is on its way. What is planned from now on runs after it: it counts as computed, and can be found."""
        self.kv.launch()
        for s in plan.scheduled:
            s.request.promised = int(s.whole and s.request.samples)
        self.commit(plan)

    def land(self, plan: Plan) -> None:
        """It is done: before what it chose is appended."""
        self.kv.land()
        for s in plan.scheduled:
            s.request.promised = 0

    def _plan(self, *, ahead: bool) -> Plan:
        prefills = sum(r.num_waiting_tokens > 1 for r in self.running) + len(self.waiting)
        budget = Budget(self.config, prefills, len(self.running) + len(self.waiting))
        draft = Draft(budget, ahead=ahead, ending=sum(r.ending for r in self.running) if ahead else 0)
        self._plan_running(draft)
        waits = "a running sequence was just preempted" if draft.preempted else self._admit(draft) if self.waiting else None
        return draft.plan(waits if self.waiting else None)

    def commit(self, plan: Plan) -> None:
        """What was planned is computed, or is before anything else, and can be found."""
        for s in plan.scheduled:
            s.request.num_computed_tokens = s.end
            self.kv.settle(s.request, s.begin, s.end)

    def rewind(self, plan: Plan, slots: Mapping[str, Array], copies: Iterable[tuple[str, int, int]] = ()) -> None:
        """After a forward that raised, in place of `land`: nobody knows what it left in its slots, by group, and where it was to copy
        pages. All that run compute everything again, since a plan made meanwhile may count on it."""
        self.kv.forget(slots, copies)
        for request in list(self.running):
            self._requeue(request)
        self.land(plan)

    def finish(self, request: Request, status: Status) -> None:
        """End a sequence, wherever it is, and give back its pages; a second time changes nothing."""
        if request.finished:
            return
        (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
        self.kv.free(request)
        request.status = status

    def reset_prefix_cache(self, reset_running_requests: bool = False) -> bool:
        """Forget what the cache keeps. While sequences run it is refused, with False, unless they may be preempted."""
        if reset_running_requests:
            for request in list(self.running):
                self._preempt(request)
        return self.kv.reset()

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.waiting and not self.running

    def _plan_running(self, draft: Draft) -> None:
        """Those that decode before those that are still within their prompt; each with pages, or the last ones lose theirs."""
        for request in sorted(self.running, key=lambda r: r.num_waiting_tokens > 1):
            n = draft.budget.offer(request, request.num_waiting_tokens)
            if not n or request.status is not Status.RUNNING:
                continue
            while not self.kv.allocate_slots(request, request.num_computed_tokens, n):
                victim = self.running[-1]
                self._preempt(victim, draft)
                if victim is request:
                    break
            else:
                draft.add(request, n)

    def _preempt(self, request: Request, draft: Draft | None = None) -> None:
        if draft is not None:
            draft.take_back(request)
        request.num_preemptions += 1
        self.num_preemptions += 1
        self._requeue(request)

    def _requeue(self, request: Request) -> None:
        self.running.remove(request)
        self.kv.free(request)
        request.status, request.num_computed_tokens = Status.PREEMPTED, 0
        insort(self.waiting, request, key=self.policy.rank)

    def _admit(self, draft: Draft) -> str | None:
        """Take from the queue while there is room; why the first that stays can't run yet."""
        passed: list[str] = []
        for request in self._candidates():
            if not draft.budget.tokens:
                return draft.budget.spent
            if len(passed) == PASSED:
                break
            if held_back := self._held_back(request, draft):
                passed.append(held_back)
            elif full := self._seat(request, draft):
                return full
            elif refused := self._begin(request, draft):
                passed.append(refused)
        return passed[0] if passed else "it shares what another is going to compute"

    def _candidates(self) -> list[Request]:
        for request in self.waiting if self.policy.looks else ():
            request.overtaken = self._begun - request.begun_before
        return list(self.policy.order(self.waiting, self.running, self.kv))

    def _held_back(self, request: Request, draft: Draft) -> str | None:
        """Why others may pass it in this step."""
        first = request.submission.requests[0]
        shares = request is not first and request.chain is not None and request.reads_cache and not first.finished
        if shares and first.num_computed_tokens < len(request.prompt_token_ids) - 1:
            return "the request's first sequence computes the prompt for all of them"
        if not draft.budget.partial and not request.wants_all_logits:
            return None
        found = self.kv.lookup(request.chain, request.num_tokens - 1) if request.reads_cache else 0
        return draft.budget.refuses(request, request.num_tokens - found)

    def _seat(self, request: Request, draft: Draft) -> str | None:
        """A place among those that run, and pages; why there is none. Who gives way is preempted for it, if that suffices."""
        if (reason := self._try(request, draft)) is None:
            return None
        threshold = self.config.priority_preemption_threshold
        givers = [] if threshold is None else [r for r in self.running if self.policy.gives_way(r, request, threshold)]
        if not givers or not self._suffices(request, givers):
            return reason
        while reason is not None and givers:
            self._preempt(givers.pop(), draft)
            reason = self._try(request, draft)
        return reason

    def _try(self, request: Request, draft: Draft) -> str | None:
        if len(self.running) - draft.ending >= self.config.max_num_seqs:
            return f"max_num_seqs, {self.config.max_num_seqs}, are running"
        # one more than it has, so that whoever is admitted gets at least one token further before it can lose its pages
        tokens, step = request.num_tokens + 1, self.config.max_num_batched_tokens
        encoded = len(request.submission.encoder_token_ids)
        found = self.kv.admit(request, request.chain, request.num_tokens - 1, tokens, step, reads=request.reads_cache, encoded=encoded)
        if found is None:
            return f"the {request.num_tokens} tokens of {request.submission.request_id} need more pages than are free"
        request.num_computed_tokens = found
        return None

    def _suffices(self, request: Request, givers: list[Request]) -> bool:
        step = self.config.max_num_batched_tokens
        needs = {name: rule.most(request.num_tokens + 1, step) for name, rule in self.kv.groups.items()}
        return self.kv.fits(needs, self.kv.gain(givers))

    def _begin(self, request: Request, draft: Draft) -> str | None:
        """Give a sequence that has a seat its first tokens; why it may have none in this step: then the seat is free again."""
        left = request.num_waiting_tokens
        refused = draft.budget.refuses(request, left)
        n = draft.budget.offer(request, left)
        if refused or not self.kv.allocate_slots(request, request.num_computed_tokens, n):
            self.kv.free(request)
            request.num_computed_tokens = 0
            return refused or "what it found in the cache leaves it no page to go on"
        self.kv.count(request.num_tokens, request.num_computed_tokens, preempted=request.num_preemptions > 0)
        if request.num_cached_tokens is None:
            request.num_cached_tokens = request.num_computed_tokens
        self.waiting.remove(request)
        insort(self.running, request, key=self.policy.rank)
        request.status = Status.RUNNING
        self._begun += 1
        draft.add(request, n)
        return None
