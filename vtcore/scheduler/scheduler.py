"""Who computes what next: one token budget a step, running sequences first, then waiting ones in the order they came.

There is no prefill phase: a sequence has so many tokens, so many of them are computed, and a step hands out tokens until the budget is
spent. A long prompt is thereby cut into chunks. When pages run out, the sequence that came last gives its own back and computes
everything again later: its tokens stay, so nothing that was shown changes."""

from __future__ import annotations

from collections import deque

from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request, Status
from vtcore.scheduler.budget import Budget
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.plan import Plan, Scheduled


class Scheduler:
    """Owns the queue, the running list and, through the manager, the pages. No arithmetic and no tensors."""

    def __init__(self, config: SchedulerConfig, kv: KVCacheManager) -> None:
        self.config, self.kv = config, kv
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    def add(self, request: Request) -> None:
        """Queue a sequence. Whoever calls has made sure that the pools hold it alone."""
        self.waiting.append(request)

    def plan(self) -> Plan:
        """The next step. Asked again without a commit in between, it plans the same work: what it allocated is kept."""
        budget = Budget(self.config)
        scheduled, preempted = self._plan_running(budget)
        waits = "a running sequence was just preempted" if preempted else self._admit(scheduled, budget)
        return Plan(tuple(scheduled), tuple(preempted), waits if self.waiting else None)

    def rewind(self, plan: Plan) -> None:
        """After a forward that raised: whoever took part computes everything again, since nobody knows what was written."""
        for s in reversed(plan.scheduled):
            self._requeue(s.request)

    def finish(self, request: Request, status: Status) -> None:
        """End a sequence, wherever it is, and give back its pages; a second time changes nothing."""
        if request.finished:
            return
        (self.running if request.status is Status.RUNNING else self.waiting).remove(request)
        self.kv.free(request)
        request.status = status

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        return not self.waiting and not self.running

    def _plan_running(self, budget: Budget) -> tuple[list[Scheduled], list[Request]]:
        """Those that decode before those that are still within their prompt; each with pages, or the last ones lose theirs."""
        order = deque(sorted(self.running, key=lambda r: r.num_waiting_tokens > 1))
        scheduled, preempted = list[Scheduled](), list[Request]()
        while order:
            request = order.popleft()
            if not (n := budget.offer(request)):
                continue
            while not (fits := self.kv.allocate_slots(request, request.num_computed_tokens, n)) and order:
                preempted.append(self._preempt(order.pop()))
            if fits:
                scheduled.append(Scheduled(request, request.num_computed_tokens, n))
                budget.spend(request, n)
            else:
                preempted.append(self._preempt(request))
        return scheduled, preempted

    def _preempt(self, request: Request) -> Request:
        request.num_preemptions += 1
        self._requeue(request)
        return request

    def _requeue(self, request: Request) -> None:
        self.running.remove(request)
        self.kv.free(request)
        request.status, request.num_computed_tokens = Status.PREEMPTED, 0
        self.waiting.appendleft(request)

    def _admit(self, scheduled: list[Scheduled], budget: Budget) -> str | None:
        """Take from the queue while there is room; why the first that stays can't run yet."""
        while self.waiting:
            request = self.waiting[0]
            if not (n := budget.offer(request)):
                return budget.spent
            if len(self.running) == self.config.max_num_seqs:
                return f"max_num_seqs, {self.config.max_num_seqs}, are running"
            # one more than it has, so that whoever is admitted gets at least one token further before it can lose its pages
            if not self.kv.fits(request.num_tokens + 1, self.config.max_num_batched_tokens):
                return f"the {request.num_tokens} tokens of {request.submission.request_id} need more pages than are free"
            self.kv.allocate_slots(request, request.num_computed_tokens, n)
            self.running.append(self.waiting.popleft())
            request.status = Status.RUNNING
            scheduled.append(Scheduled(request, request.num_computed_tokens, n))
            budget.spend(request, n)
        return None
