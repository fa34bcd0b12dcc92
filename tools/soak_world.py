"""A scheduler, a cache, and a model of what must stand in every page of it; see soak_scheduler.py."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from vtcore.kvcache.budget import Budget
from vtcore.kvcache.cache import Paged, Spec, State
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import KVCacheManager
from vtcore.kvcache.pages import PageRule
from vtcore.kvcache.pool import NULL
from vtcore.request import Request, Status, Submission
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.plan import Plan, Scheduled
from vtcore.scheduler.policies.lpm import PATIENCE
from vtcore.scheduler.scheduler import Scheduler

SHAPES = {"k": (1, 1)}
GROUPS: dict[str, tuple[Spec, ...]] = {
    "full": (Paged(SHAPES),),
    "window": (Paged(SHAPES), Paged(SHAPES, window=7)),
    "chunk": (Paged(SHAPES), Paged(SHAPES, chunk=8)),
    "folds": (Paged(SHAPES, window=5), Paged(SHAPES, window=8), Paged(SHAPES, every=4), Paged(SHAPES, every=8)),
    "state": (State(SHAPES),),
    "hybrid": (Paged(SHAPES), Paged(SHAPES, window=6), State(SHAPES)),
}
LENGTHS = {"max_model_len": 96}
END, LATE = 11, 13  # of so many tokens, one ends its sequence: by its id; by its text, which nobody reads before the next step computes
Numbers = dict[tuple[Request, str], list[int]]  # of a sequence in a group


@dataclass
class Life:
    """What is known of a sequence: the hashes of its first tokens, and how many that came later began before it."""

    request: Request
    hashes: list[int]
    overtaken: int = 0
    begun: bool = False


@dataclass
class Flying:
    """A step that computes, with all that the tables said when it was launched."""

    plan: Plan
    lives: dict[Request, Life]
    copies: list[tuple[str, int, int]]
    reads: Numbers
    slots: Numbers
    chosen: list[Request] = field(default_factory=list)  # whose next token it chose

    @property
    def written(self) -> dict[str, Any]:
        """Slots by group."""
        return {group: np.array([s for (_, g), slots in self.slots.items() if g == group for s in slots]) for _, group in self.slots}


class World:
    """A scheduler, the memory that its slots lead to, and the sequences in it."""

    def __init__(
        self, groups: str, pages: int, size: int, options: dict[str, Any], caching: dict[str, Any], shares: Sequence[int] = ()
    ) -> None:
        """`shares`: bytes of each group's pages, where the groups share those of `pages` pages of the largest."""
        self.config = SchedulerConfig(**LENGTHS | options)
        specs = {spec.group: spec for spec in GROUPS[groups]}
        self.memory: dict[str, dict[int, Any]] = {name: defaultdict(int) for name in specs}
        self.writes: dict[str, set[int]] = {name: set() for name in specs}  # pages that the step writes that computes
        sizes = dict(zip(specs, shares, strict=False))
        budget = Budget(pages * max(shares), sizes, self._give_back) if shares else None
        self.kv = KVCacheManager(specs, dict.fromkeys(specs, pages), CacheConfig(size, **caching), budget=budget)
        for name, pool in self.kv.pools.items():
            vars(pool)["take"] = partial(self._take, name, pool.take)
        self.scheduler = Scheduler(self.config, self.kv)
        self.lives: dict[Request, Life] = {}
        self.flying: Flying | None = None
        self.counts = Counter[str]()

    def add(self, prompt: list[int], wanted: int, n: int = 1, priority: int = 0) -> bool:
        """A request; False where the pools wouldn't hold it alone."""
        total, step = len(prompt) + wanted, self.config.max_num_batched_tokens
        needs = {name: rule.most(total, step) for name, rule in self.kv.groups.items()}
        if any(n > self.kv.pools[name].capacity for name, n in needs.items()) or self.kv.lacks(needs):
            return False
        submission = Submission(str(self.counts["added"]), prompt, SamplingParams(max_tokens=wanted), total, priority=priority)
        submission.requests = [Request(submission, i, seed=i) for i in range(n)]
        for request in submission.requests:
            self.scheduler.add(request)
            self.lives[request] = Life(request, [])
        self.counts["added"] += n
        return True

    def abort(self, which: int) -> None:
        """End one of the sequences."""
        if self.lives:
            request = list(self.lives)[which % len(self.lives)]
            self._finish(request, Status.ABORTED)
            self.scheduler.finish(request, Status.ABORTED)
            self.counts["aborted"] += 1

    def reset(self, running: bool) -> None:
        """Forget what the cache keeps."""
        self._commit(self._land())
        held = bool(self.scheduler.running)
        assert self.scheduler.reset_prefix_cache(running) == (running or not held), (running, held)
        assert not self.scheduler.running or not running
        self.counts["resets"] += 1

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return self.scheduler.idle and self.flying is None

    def step(self, fails: bool = False) -> None:
        """As an engine does it: plan, compute and commit, the three of them for steps that follow each other where they overlap."""
        if self.idle:
            return
        plan, asynchronous = self._plan(), self.config.async_scheduling
        self.counts["steps"] += 1
        fails_now = fails and asynchronous and self.flying is not None
        landed = self._land(fails_now)
        if plan is not None and not fails_now:  # else whoever it counts on computes again
            self._launch(plan.without(self._ended(landed)))
        self._commit(landed if asynchronous else self._land(fails))
        self.check()

    def _plan(self) -> Plan | None:
        if self.scheduler.idle:
            return None
        best = self.scheduler.running[0] if self.scheduler.running else None
        plan = self.scheduler.plan() if self.flying is None else self.scheduler.plan_ahead()
        if plan is None:
            self.counts["too early"] += 1
            return None
        assert plan.scheduled or self.flying, f"nothing can run: {plan.waits}"
        assert plan.num_tokens <= self.config.max_num_batched_tokens
        assert len([r for r in self.scheduler.running if not r.ending]) <= self.config.max_num_seqs
        assert best is None or best in plan.preempted or best.ending or any(s.request is best for s in plan.scheduled)
        assert best is None or best not in plan.preempted or self.config.priority_preemption_threshold is not None
        assert not plan.preempted or self.flying is None
        self.counts["ahead"] += self.flying is not None
        self.counts["preempted"] += len(plan.preempted)
        self._began(plan)
        return plan

    def check(self) -> None:
        """Every page is free, or waits to be, or is held as often as somebody holds it."""
        for name, pool in self.kv.pools.items():
            held = Counter(p for one in self.kv.tables(name) for p in one.held() if p != NULL)
            assert all(pool.holders(p) == held[p] for p in range(1, pool.pages)), f"{name}: pages are lost or held twice"
            assert pool.num_held - pool.num_parked == len(held)
            assert self.kv.budget is not None or pool.num_free + pool.num_parked == pool.capacity - len(held)
            assert not pool.num_parked or self.flying
        if self.kv.budget is not None:
            assert self.kv.budget.spare >= 0
            assert self.kv.budget.nbytes - self.kv.budget.spare <= self.kv.budget.paid <= self.kv.budget.nbytes, "memory is over the limit"
        if self.idle:
            assert self.kv.usage == 0

    def _take(self, group: str, take: Callable[[int], list[int]], count: int) -> list[int]:
        taken = take(count)
        assert not self.writes[group].intersection(taken), f"{group}: a page of {taken} is taken while a step writes it"
        return taken

    def _give_back(self, group: str, page: int) -> None:
        """What stood there is gone."""
        assert page not in self.writes[group], f"{group}: page {page} is given back while a step writes it"
        self.counts["given back"] += 1
        size = self.kv.groups[group].size
        self.memory[group].update((place, None) for place in range(page * size, (page + 1) * size))

    def _began(self, plan: Plan) -> None:
        """Nobody is overtaken more often than the policy says."""
        for s in plan.scheduled:
            life = self.lives[s.request]
            if not life.begun:
                life.begun = True
                for other in self.lives.values():
                    earlier = self.scheduler.policy.rank(other.request) < self.scheduler.policy.rank(s.request)
                    other.overtaken += earlier and not other.begun
                most = {"lpm": PATIENCE, "dfs-weight": PATIENCE}.get(self.config.scheduling_policy, 0)
                capped = self.config.max_num_partial_prefills > 1 or self.config.long_prefill_token_threshold
                alone = not capped and len(s.request.submission.requests) == 1  # else it may have been held back by rule
                assert not alone or life.overtaken <= most, f"overtaken {life.overtaken} times"

    def _launch(self, plan: Plan) -> None:
        if not plan.scheduled:
            return
        each = [(s, name) for s in plan.scheduled for name in self.kv.groups]
        reads = {(s.request, name): list(self.kv.read(s.request, name, s.begin)) for s, name in each}
        slots = {(s.request, name): self.kv.slots(s.request, name, s.begin, s.num_tokens).tolist() for s, name in each}
        lives = {s.request: self.lives[s.request] for s in plan.scheduled}
        for s in plan.scheduled:
            assert len(self._hashes(lives[s.request], s.end)) >= s.end, "a token isn't known yet"
        self.flying = Flying(plan, lives, list(self.kv.copies(s.request for s in plan.scheduled)), reads, slots)
        self.scheduler.launch(plan)
        for name, slots in self.flying.written.items():
            self.writes[name] = set((slots[slots >= 0] // self.kv.groups[name].size).tolist())

    def _land(self, fails: bool = False) -> Flying | None:
        """Compute the step in flight, or fail: then what it was to write is anything."""
        flying, self.flying = self.flying, None
        self.writes = {name: set() for name in self.kv.groups}
        if flying is None:
            return None
        if fails:
            for (_, name), slots in flying.slots.items():
                self.memory[name].update((slot, "garbage") for slot in slots if slot >= 0)
            self.scheduler.rewind(flying.plan, flying.written, flying.copies)
            self.counts["failed"] += 1
            return None
        self._compute(flying)
        self.scheduler.land(flying.plan)
        for s in flying.plan.scheduled:
            if not s.request.finished and s.whole:
                flying.chosen.append(s.request)
                s.request.output_token_ids.append((flying.lives[s.request].hashes[-1] + s.request.seed) % 3)
        return flying

    def _compute(self, f: Flying) -> None:
        for name, source, target in f.copies:
            rule, memory = self.kv.groups[name], self.memory[name]
            assert isinstance(rule, PageRule)
            for i in range(rule.size):
                memory[target * rule.size + i] = memory[source * rule.size + i]
            self.counts["copies"] += 1
        for name, rule in self.kv.groups.items():
            if isinstance(rule, PageRule):
                for s in f.plan.scheduled:
                    self._write(name, s, f)
                for s in f.plan.scheduled:
                    self._look(name, rule, s, f)
            else:
                for s in f.plan.scheduled:
                    self._walk(name, s, f)

    def _hashes(self, life: Life, end: int) -> list[int]:
        for token in life.request.tokens(len(life.hashes), end):
            life.hashes.append(hash((life.hashes[-1] if life.hashes else 0, token)))
        return life.hashes

    def _write(self, name: str, s: Scheduled, f: Flying) -> None:
        known, memory = f.lives[s.request].hashes, self.memory[name]
        for i, slot in enumerate(f.slots[s.request, name]):
            if slot >= 0:
                memory[slot] = known[s.begin + i]

    def _look(self, name: str, rule: PageRule, s: Scheduled, f: Flying) -> None:
        """The entries that its first and its last token look at."""
        known, memory, pages = f.lives[s.request].hashes, self.memory[name], f.reads[s.request, name]
        for at in {s.begin, s.end - 1}:
            every, size = rule.spec.every, rule.size
            for entry in range(rule.first(at) // every, (at + 1) // every):
                page = pages[entry // size]
                assert page != NULL, f"{name}: entry {entry} has no page, and token {at} looks at it"
                assert memory[page * size + entry % size] == known[(entry + 1) * every - 1], f"{name}: entry {entry} isn't the sequence's"

    def _walk(self, name: str, s: Scheduled, f: Flying) -> None:
        known, memory = f.lives[s.request].hashes, self.memory[name]
        [source] = f.reads[s.request, name]
        assert memory[source] == (known[s.begin - 1] if s.begin else 0), f"{name}: another's state"
        self._write(name, s, f)

    def _ended(self, landed: Flying | None) -> set[Request]:
        """Those of whom it is known before the next step computes, but not before it is planned."""
        return {request for request in (landed.chosen if landed else ()) if self._says(request, END)}

    def _says(self, request: Request, what: int) -> bool:
        """Whether its last token is one of those."""
        return hash((*request.output_token_ids, request.seed, len(request.prompt_token_ids))) % what == 0

    def _commit(self, landed: Flying | None) -> None:
        if landed is None:
            return
        self.counts["tokens"] += landed.plan.num_tokens
        self.counts["gone"] += sum(s.request.finished for s in landed.plan.scheduled)
        for request in landed.chosen:
            full = request.num_tokens >= request.submission.max_total_tokens
            if full or self._says(request, END) or self._says(request, LATE):
                self.counts["late"] += request.promised
                self.counts["finished"] += 1
                self._finish(request, Status.LENGTH_CAPPED if full else Status.STOPPED)

    def _finish(self, request: Request, status: Status) -> None:
        self.scheduler.finish(request, status)
        del self.lives[request]
