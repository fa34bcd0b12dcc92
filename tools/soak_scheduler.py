"""Drives the scheduler and the cache for a long time, and holds every page against a model of what must stand in it.

No model computes: a token is a hash of all tokens before it, an entry of the cache is a hash of the tokens up to its own. So a page that
is given away too early, copied too late or found under a wrong key shows as a wrong entry.

    python tools/soak_scheduler.py --steps 100000"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass
class Life:
    """What is known of a sequence: the hashes of its first tokens, and how many that came later began before it."""

    request: Request
    hashes: list[int]
    overtaken: int = 0
    begun: bool = False


class World:
    """A scheduler, the memory that its slots lead to, and the sequences in it."""

    def __init__(
        self, groups: str, pages: int, size: int, options: dict[str, Any], caching: dict[str, Any], shares: Sequence[int] = ()
    ) -> None:
        """`shares`: bytes of each group's pages, where the groups share those of `pages` pages of the largest."""
        self.config = SchedulerConfig(**LENGTHS | options)
        specs = {spec.group: spec for spec in GROUPS[groups]}
        self.memory: dict[str, dict[int, Any]] = {name: defaultdict(int) for name in specs}
        sizes = dict(zip(specs, shares, strict=False))
        budget = Budget(pages * max(shares), sizes, self._give_back) if shares else None
        self.size = size
        self.kv = KVCacheManager(specs, dict.fromkeys(specs, pages), CacheConfig(size, **caching), budget=budget)
        self.scheduler = Scheduler(self.config, self.kv)
        self.lives: dict[Request, Life] = {}
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
            self.scheduler.finish(request, Status.ABORTED)
            self.scheduler.finish(request, Status.ABORTED)
            del self.lives[request]
            self.counts["aborted"] += 1

    def reset(self, running: bool) -> None:
        """Forget what the cache keeps."""
        held = bool(self.scheduler.running)
        assert self.scheduler.reset_prefix_cache(running) == (running or not held), (running, held)
        assert not self.scheduler.running or not running
        self.counts["resets"] += 1

    def step(self, fails: bool = False) -> None:
        """Plan, and compute; or plan, and fail."""
        if self.scheduler.idle:
            return
        best = self.scheduler.running[0] if self.scheduler.running else None
        plan = self.scheduler.plan()
        assert plan.scheduled, f"nothing can run: {plan.waits}"
        assert plan.num_tokens <= self.config.max_num_batched_tokens
        assert len(self.scheduler.running) <= self.config.max_num_seqs
        assert best is None or best in plan.preempted or any(s.request is best for s in plan.scheduled)
        assert best is None or best not in plan.preempted or self.config.priority_preemption_threshold is not None
        self._began(plan)
        self.counts["steps"] += 1
        self.counts["preempted"] += len(plan.preempted)
        if fails:
            self.scheduler.rewind(plan)
            self.counts["failed"] += 1
        else:
            self._compute(plan)
            self._commit(plan)
        self.check()

    def check(self) -> None:
        """Every page is free, or held as often as somebody holds it."""
        for name, pool in self.kv.pools.items():
            held = Counter(p for one in self.kv.tables(name) for p in one.held() if p != NULL)
            assert all(pool.holders(p) == held[p] for p in range(1, pool.pages)), f"{name}: pages are lost or held twice"
            assert pool.num_held == len(held)
            assert self.kv.budget is not None or pool.num_free == pool.capacity - len(held)
        if self.kv.budget is not None:
            assert self.kv.budget.spare >= 0
            assert self.kv.budget.nbytes - self.kv.budget.spare <= self.kv.budget.paid <= self.kv.budget.nbytes, "memory is over the limit"
        if self.scheduler.idle:
            assert self.kv.usage == 0

    def _give_back(self, group: str, page: int) -> None:
        """What stood there is gone."""
        self.counts["given back"] += 1
        size = self.size if isinstance(self.kv.groups[group], PageRule) else 1
        for place in range(page * size, (page + 1) * size):
            self.memory[group][place] = None

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

    def _compute(self, plan: Plan) -> None:
        for name, source, target in self.kv.copies(s.request for s in plan.scheduled):
            rule, memory = self.kv.groups[name], self.memory[name]
            assert isinstance(rule, PageRule)
            for i in range(rule.size):
                memory[target * rule.size + i] = memory[source * rule.size + i]
            self.counts["copies"] += 1
        for s in plan.scheduled:
            self._hashes(s.request, s.end)
        for name, rule in self.kv.groups.items():
            if isinstance(rule, PageRule):
                for s in plan.scheduled:
                    self._write(name, s)
                for s in plan.scheduled:
                    self._look(name, rule, s)
            else:
                for s in plan.scheduled:
                    self._walk(name, s)

    def _hashes(self, request: Request, end: int) -> list[int]:
        known = self.lives[request].hashes
        for token in request.tokens(len(known), end):
            known.append(hash((known[-1] if known else 0, token)))
        return known

    def _write(self, name: str, s: Scheduled) -> None:
        known, memory = self.lives[s.request].hashes, self.memory[name]
        for i, slot in enumerate(self.kv.slots(s.request, name, s.begin, s.num_tokens)):
            if slot >= 0:
                memory[int(slot)] = known[s.begin + i]

    def _look(self, name: str, rule: PageRule, s: Scheduled) -> None:
        """The entries that its first and its last token look at."""
        known, memory, pages = self.lives[s.request].hashes, self.memory[name], self.kv.read(s.request, name, s.begin)
        for at in {s.begin, s.end - 1}:
            every, size = rule.spec.every, rule.size
            for entry in range(rule.first(at) // every, (at + 1) // every):
                page = pages[entry // size]
                assert page != NULL, f"{name}: entry {entry} has no page, and token {at} looks at it"
                assert memory[page * size + entry % size] == known[(entry + 1) * every - 1], f"{name}: entry {entry} isn't the sequence's"

    def _walk(self, name: str, s: Scheduled) -> None:
        known, memory = self.lives[s.request].hashes, self.memory[name]
        [source] = self.kv.read(s.request, name, s.begin)
        assert memory[source] == (known[s.begin - 1] if s.begin else 0), f"{name}: another's state"
        self._write(name, s)

    def _commit(self, plan: Plan) -> None:
        self.scheduler.commit(plan)
        self.counts["tokens"] += plan.num_tokens
        for s in plan.scheduled:
            request = s.request
            if request.num_waiting_tokens:
                continue
            request.output_token_ids.append((self.lives[request].hashes[-1] + request.seed) % 3)
            if request.num_tokens >= request.submission.max_total_tokens:
                self.scheduler.finish(request, Status.LENGTH_CAPPED)
                del self.lives[request]
                self.counts["finished"] += 1


def random_world(rng: random.Random) -> World:
    """Any combination that the options allow."""
    seqs, size = rng.randint(1, 6), rng.choice((2, 4, 8))
    policy = rng.choice(("fcfs", "priority", "lpm", "dfs-weight"))
    partial = rng.randint(1, seqs)
    options = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": rng.randint(seqs, 24),
        "scheduling_policy": policy,
        "max_num_partial_prefills": partial,
        "max_long_partial_prefills": rng.randint(1, partial),
        "long_prefill_token_threshold": rng.choice((0, 0, 6)),
        "priority_preemption_threshold": rng.choice((None, 0, 1)) if policy == "priority" else None,
    }
    caches = policy in ("lpm", "dfs-weight") or rng.random() < 0.8
    unit = rng.choice([n for n in (1, 2, 4, 8) if size % n == 0])
    caching = {"enable_prefix_caching": caches, "prefix_match_unit": unit if caches else None}
    if caches and rng.random() < 0.7:
        caching["mamba_block_size"] = unit * rng.randint(1, 6)
    groups = rng.choice(list(GROUPS))
    shares = [rng.choice((1, 2, 3, 5)) for _ in GROUPS[groups]] if rng.random() < 0.5 else []
    return World(groups, rng.randint(6, 40), size, options, caching, shares)


def random_event(world: World, rng: random.Random) -> None:
    """One thing that may happen."""
    what = rng.random()
    if what < 0.35 and len(world.lives) < 40:
        shared = [i % 3 for i in range(rng.randint(0, 30))]
        prompt = shared + [rng.randint(0, 2) for _ in range(rng.randint(1, 12))]
        priority = rng.randint(0, 3) if world.config.scheduling_policy == "priority" else 0
        world.add(prompt, rng.randint(1, 12), rng.choice((1, 1, 1, 3)), priority)
    elif what < 0.39:
        world.abort(rng.randint(0, 99))
    elif what < 0.4:
        world.reset(rng.random() < 0.3)
    else:
        world.step(fails=rng.random() < 0.02)


def soak(steps: int, seed: int, each: int = 100) -> Counter[str]:
    """So many steps, a new world every `each` of them."""
    rng, total = random.Random(seed), Counter[str]()
    while total["steps"] < steps:
        world = random_world(rng)
        while world.counts["steps"] < min(each, steps - total["steps"]):
            random_event(world, rng)
        most = sum(r.submission.max_total_tokens for r in world.lives) * (1 + len(world.lives)) + 100
        for _ in range(most):
            if world.scheduler.idle:
                break
            world.step()
        assert world.scheduler.idle, "sequences don't come to an end"
        found = world.kv.stats()
        total += world.counts + Counter({"worlds": 1, "found": found.hits + found.preempted_hits, "evicted": found.evictions})
    return total


def main() -> None:
    """Run and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begin = time.perf_counter()
    for name, value in soak(args.steps, args.seed).items():
        print(f"{value:10d}  {name}")
    print(f"{time.perf_counter() - begin:10.1f}  seconds")


if __name__ == "__main__":
    main()
