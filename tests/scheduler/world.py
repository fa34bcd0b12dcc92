"""A scheduler without a model: sequences by name, and steps that are committed as an engine would."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from vtcore.kvcache.cache import Paged
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request, Status, Submission
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.plan import Plan
from vtcore.scheduler.scheduler import Scheduler

FULL, WINDOW = Paged({"k": (1, 4)}), Paged({"k": (1, 4)}, window=5)


def sequence(name: str, prompt: int | list[int], wanted: int = 3, **options: Any) -> Request:
    """A request of one sequence; a number stands for so many tokens that all prompts share."""
    ids = list(range(1, prompt + 1)) if isinstance(prompt, int) else prompt
    submission = Submission(name, ids, SamplingParams(max_tokens=wanted), len(ids) + wanted, **options)
    submission.requests = [Request(submission, 0, seed=0)]
    return submission.requests[0]


def scheduler(pages: int = 101, groups: tuple[Paged, ...] = (FULL,), size: int = 4, caching: bool = False, **limits: Any) -> Scheduler:
    """A small one; without prefix caching unless asked for."""
    cache = {f.name: limits.pop(f.name) for f in fields(CacheConfig) if f.name in limits}
    config = SchedulerConfig(**{"max_num_seqs": 4, "max_num_batched_tokens": 16, "max_model_len": 64, **limits})
    specs = {g.group: g for g in groups}
    return Scheduler(config, KVCacheManager(specs, dict.fromkeys(specs, pages), CacheConfig(size, caching, **cache)))


def work(plan: Plan) -> list[tuple[str, int, int]]:
    """A plan in names and numbers."""
    return [(s.request.submission.request_id, s.begin, s.num_tokens) for s in plan.scheduled]


def commit(plan: Plan, s: Scheduler) -> None:
    """As the engine does: what was planned is computed; whoever is through gets a token, and ends with the last one wanted."""
    s.commit(plan)
    for part in plan.scheduled:
        r = part.request
        if part.end == r.num_tokens:
            r.output_token_ids.append(7)
            if r.num_tokens == r.submission.max_total_tokens:
                s.finish(r, Status.LENGTH_CAPPED)


def run(s: Scheduler, limit: int = 2000) -> list[Plan]:
    """To the end: all plans."""
    plans: list[Plan] = []
    while not s.idle:
        plans.append(s.plan())
        assert plans[-1].scheduled
        commit(plans[-1], s)
        assert len(plans) < limit
    return plans
