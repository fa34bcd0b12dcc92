"""Random workloads, each answer held against the same request alone: tokens, logprobs and counts must have the same bits.

python tools/random_workloads.py --count 200"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vtcore.assembly import assemble
from vtcore.conformance.golden import FOLDER, Golden
from vtcore.engine import Engine
from vtcore.errors import PromptError
from vtcore.formats.checkpoint import open_checkpoint
from vtcore.options import Options
from vtcore.outputs import RequestOutput
from vtcore.sampling_params import SamplingParams

MODELS = ("llama", "gemma3", "llama4", "deepseek_v3", "deepseek_v4", "qwen3_next", "kimi_linear", "jamba")
SMALL: dict[str, Any] = {"providers": "portable", "threads": 1, "block_size": 8, "max_model_len": 96}
VOCABULARY = 300


@cache
def folder(name: str) -> Path:
    """A golden's checkpoint."""
    return Golden.load(FOLDER / f"{name}.json").write_safetensors(Path(tempfile.mkdtemp()) / name)


def engine(name: str, **options: Any) -> Engine:
    """An engine around it."""
    tokenizer: Any = Letters()
    return assemble(open_checkpoint(folder(name)), Options(**SMALL | options), tokenizer).engine


class Letters:
    """Token i is the letter i of a large alphabet; so much of a tokenizer as an engine asks for."""

    eos_ids = frozenset({VOCABULARY - 1})

    def stream(self, skip_special_tokens: bool) -> Letters:
        """One sequence's text. It has no state."""
        return self

    def push(self, token: int) -> str:
        """The text that a token adds."""
        return chr(ord("一") + token)

    def finish(self) -> str:
        """What is held back."""
        return ""

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        """The text of several tokens."""
        return "".join(map(self.push, ids))


@dataclass(frozen=True)
class Job:
    """A request: what it asks for, the step at which it comes, and the step after which it is aborted (None: never)."""

    prompt: tuple[int, ...]
    params: SamplingParams
    priority: int
    arrives: int
    aborted: int | None


@dataclass(frozen=True)
class Workload:
    """A model, how it is served, and what is asked of it."""

    name: str
    options: dict[str, Any]
    jobs: tuple[Job, ...]


def workload(seed: int) -> Workload:
    """One of the many."""
    rng = random.Random(seed)
    options, policy = _options(rng)
    if options["enable_prefix_caching"] and seed % 2 and not options["async_scheduling"]:  # one has no effect with the other
        options["kv_offloading_size"] = "100KiB"
    common = [rng.randrange(VOCABULARY) for _ in range(50)]
    return Workload(rng.choice(MODELS), options, tuple(_job(rng, common, policy == "priority") for _ in range(rng.randint(3, 9))))


def _options(rng: random.Random) -> tuple[dict[str, Any], str]:
    policy, seqs = rng.choice(("fcfs", "priority", "lpm", "dfs-weight")), rng.randint(1, 6)
    caching, partial = policy in ("lpm", "dfs-weight") or rng.random() < 0.75, rng.randint(1, seqs)
    step, long = rng.randint(max(seqs, 4), 48), rng.randint(1, partial)
    return {
        "scheduling_policy": policy,
        "max_num_seqs": seqs,
        "max_num_batched_tokens": step,
        "num_gpu_blocks_override": rng.choice((7, 9, 9, 13, None)),
        "enable_prefix_caching": caching,
        "prefix_match_unit": rng.choice((8, 4, 2)) if caching else None,
        "max_num_partial_prefills": partial,
        "max_long_partial_prefills": long,
        "long_prefill_token_threshold": rng.choice((0, 0, 12)) * (partial > long or step > 12),
        "priority_preemption_threshold": rng.choice((None, 0)) if policy == "priority" else None,
        "capture": rng.random() < 0.5,
        "async_scheduling": rng.random() < 0.5,
    }, policy


def _job(rng: random.Random, common: list[int], ranked: bool) -> Job:
    prompt = common[: rng.choice((0, 0, 9, 17, 33))] + [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 14))]
    greedy = rng.random() < 0.4
    params = SamplingParams(
        temperature=0.0 if greedy else rng.choice((0.7, 1.5)),
        seed=rng.randrange(1000),
        n=1 if greedy else rng.choice((1, 1, 1, 3)),
        max_tokens=rng.randint(1, 30),
        logprobs=rng.choice((None, 2)),
        prompt_logprobs=rng.choice((None, None, None, 1)),
        presence_penalty=rng.choice((0.0, 0.5)),
        repetition_penalty=rng.choice((1.0, 1.0, 1.3)),
        stop=[Letters().push(rng.randrange(VOCABULARY)) for _ in range(rng.choice((0, 0, 8)))],
        stop_token_ids=[rng.randrange(VOCABULARY) for _ in range(rng.choice((0, 0, 12)))],
        ignore_eos=rng.random() < 0.8,
    )
    aborted = rng.randint(0, 12) if rng.random() < 0.1 else None
    return Job(tuple(prompt), params, rng.randint(0, 2) if ranked else 0, rng.randint(0, 12), aborted)


@cache
def _plain(name: str) -> Engine:
    return engine(name, enable_prefix_caching=False)


@cache
def _alone(name: str, prompt: tuple[int, ...], params: SamplingParams) -> RequestOutput:
    e = _plain(name)
    submission = e.submit(prompt, params)
    while not e.idle:
        e.step()
    return submission.output()


def check(seed: int) -> Counter[str]:
    """Run one; raises AssertionError where an answer isn't the one that it has alone. What happened, counted."""
    work, counts = workload(seed), Counter[str](workloads=1)
    e = engine(work.name, **work.options)
    answers = _together(e, work.jobs, counts)
    e.close()
    stats = e.stats()
    counts["asynchronous"] += e.scheduler.config.async_scheduling
    counts["stopped"] += sum(isinstance(o.stop_reason, str) for a in answers.values() for o in a.outputs)
    assert stats.cache.usage == 0
    counts += Counter(preempted=stats.preemptions, found=stats.cache.hits + stats.cache.preempted_hits, evicted=stats.cache.evictions)
    counts["brought"] += sum(tier.hits for tier in stats.cache.tiers.values())
    for job, answer in answers.items():
        alone = _alone(work.name, job.prompt, job.params)
        where = f"workload {seed}, {work.name}, {work.options}, {job}"
        assert answer.outputs == alone.outputs, where
        assert answer.prompt_logprobs == alone.prompt_logprobs, where
        assert answer.prompt_token_ids == alone.prompt_token_ids, where
    return counts


def _together(e: Engine, jobs: tuple[Job, ...], counts: Counter[str]) -> dict[Job, RequestOutput]:
    running, step = {}, 0
    while step <= max(job.arrives for job in jobs) or not e.idle:
        for job in jobs:
            if job.arrives == step:
                try:
                    running[job] = e.submit(job.prompt, job.params, priority=job.priority)
                except PromptError:  # the pool is too small for it alone: it fails, and nobody else
                    counts["refused"] += 1
            if job.aborted is not None and job.arrives + job.aborted == step and job in running:
                e.abort(running.pop(job).request_id)
                counts["aborted"] += 1
        e.step()
        step += 1
    counts["answers"] += len(running)
    return {job: submission.output() for job, submission in running.items()}


def main() -> None:
    """Run and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    args = parser.parse_args()
    begin, total = time.perf_counter(), Counter[str]()
    for seed in range(args.first, args.first + args.count):
        total += check(seed)
    for name, value in total.items():
        print(f"{value:10d}  {name}")
    print(f"{time.perf_counter() - begin:10.1f}  seconds")


if __name__ == "__main__":
    main()
