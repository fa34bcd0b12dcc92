"""Drives the scheduler and the cache for a long time, and holds every page against a model of what must stand in it.

No model computes: a token is a hash of all tokens before it, an entry of the cache is a hash of the tokens up to its own. So a page that
is given away too early, copied too late or found under a wrong key shows as a wrong entry. Half of all worlds plan a step while the one
before it computes; there a page that is taken while that one writes it shows as well.

    python tools/soak_scheduler.py --steps 100000"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter

from soak_world import GROUPS, World


def random_world(rng: random.Random) -> World:
    """Any combination that the options allow."""
    seqs, size = rng.randint(1, 6), rng.choice((2, 4, 8))
    policy = rng.choice(("fcfs", "priority", "lpm", "dfs-weight"))
    partial, step = rng.randint(1, seqs), rng.randint(seqs, 24)
    long = rng.randint(1, partial)
    options = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": step,
        "scheduling_policy": policy,
        "max_num_partial_prefills": partial,
        "max_long_partial_prefills": long,
        "long_prefill_token_threshold": rng.choice((0, 0, 6)) * (partial > long or step > 6),
        "priority_preemption_threshold": rng.choice((None, 0, 1)) if policy == "priority" else None,
        "async_scheduling": rng.random() < 0.5,
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
            if world.idle:
                break
            world.step()
        assert world.idle, "sequences don't come to an end"
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
