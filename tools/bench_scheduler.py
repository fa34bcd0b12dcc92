"""How long a step takes to plan, without a model: so many sequences running, and four times as many waiting.

python tools/bench_scheduler.py [--policy lpm] [--running 64,256,1024]"""

from __future__ import annotations

import argparse
import random
import time
from statistics import median

from vtcore.kvcache.cache import Paged
from vtcore.kvcache.config import CacheConfig
from vtcore.kvcache.manager import KVCacheManager
from vtcore.request import Request, Submission
from vtcore.sampling_params import SamplingParams
from vtcore.scheduler.config import SchedulerConfig
from vtcore.scheduler.policies import POLICIES
from vtcore.scheduler.scheduler import Scheduler

PROMPT, WANTED, BLOCK = 256, 512, 32


def loaded(running: int, waiting: int, policy: str) -> Scheduler:
    """A scheduler with so many sequences that decode, and others behind them."""
    config = SchedulerConfig(running, max(2 * running, 4096), 1024, policy)
    group = Paged({"k": (1, 1)})
    pages = {group.group: 1 + running * (PROMPT + WANTED) // BLOCK}
    scheduler = Scheduler(config, KVCacheManager({group.group: group}, pages, CacheConfig(BLOCK)))
    rng = random.Random(0)
    for i in range(running + waiting):
        prompt = [rng.randrange(1000) for _ in range(PROMPT)]
        submission = Submission(str(i), prompt, SamplingParams(max_tokens=WANTED), PROMPT + WANTED)
        submission.requests = [Request(submission, 0, seed=0)]
        scheduler.add(submission.requests[0])
    while any(r.num_waiting_tokens > 1 for r in scheduler.running) or len(scheduler.running) < running:
        step(scheduler)
    return scheduler


def step(scheduler: Scheduler) -> tuple[float, float]:
    """Seconds of the processor to plan, and to commit, one step."""
    begin = time.process_time()
    plan = scheduler.plan()
    planned = time.process_time()
    scheduler.commit(plan)
    done = time.process_time()
    for s in plan.scheduled:
        if not s.request.num_waiting_tokens:
            s.request.output_token_ids.append(7)
    return planned - begin, done - planned


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=list(POLICIES), default="fcfs")
    parser.add_argument("--running", default="64,256,1024")
    parser.add_argument("--waiting", type=int, help="sequences that wait (default: four times those that run)")
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    print(f"{'running':>8s} {'waiting':>8s} {'plan, ms':>10s} {'slowest':>10s} {'commit, ms':>10s}")
    for running in map(int, args.running.split(",")):
        scheduler = loaded(running, 4 * running if args.waiting is None else args.waiting, args.policy)
        plans, commits = zip(*(step(scheduler) for _ in range(args.steps)), strict=True)
        waiting = len(scheduler.waiting)
        print(f"{running:8d} {waiting:8d} {median(plans) * 1e3:10.3f} {max(plans) * 1e3:10.3f} {median(commits) * 1e3:10.3f}")


if __name__ == "__main__":
    main()
