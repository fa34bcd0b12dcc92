"""What the order of admission gains where few beginnings are shared by many prompts, and the cache holds few of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

from vtcore.bench.measured import Effort, Measured, measured
from vtcore.bench.speed import Load, Prompts
from vtcore.errors import VtcoreError
from vtcore.llm import LLM
from vtcore.sampling_params import SamplingParams

SHARED, OWN, OUT = 512, 8, 4  # tokens of a beginning, of each prompt behind it, and of an answer
BEGINNINGS, EACH, SEATS = 4, 6, 2  # beginnings, prompts of each, sequences that run at once: the cache has room for so many
Answers = list[list[int]]


def lpm(load: Load, effort: Effort) -> Iterator[Measured]:
    """Prompts that share BEGINNINGS beginnings in turn, first come first served and by the longest match. Raises VtcoreError where the two
    don't choose the same tokens."""
    length = SHARED + OWN + OUT
    options = {"max_model_len": length, "max_num_seqs": SEATS}
    with load(**options) as probe:
        block = probe.memory_plan.block_size
    options["num_gpu_blocks_override"] = 1 + SEATS * -(-length // block)
    with load(**options) as plain, load(**options, scheduling_policy="lpm") as ordered:
        prompts, pairs = Prompts(plain.engine), list[tuple[float, float]]()
        for i in range(1 + max(1, effort.repetitions // 2)):
            asked = _prompts(prompts)
            runs = [_timed(llm, asked) for llm in ((plain, ordered) if i % 2 else (ordered, plain))]
            (theirs, slow), (ours, fast) = runs if i % 2 else runs[::-1]
            if ours != theirs:
                raise VtcoreError("lpm chose other tokens than the same engine under fcfs")
            pairs.append((fast, slow))
        pairs = pairs[1:]  # the first ones compiled kernels
    what = f"{BEGINNINGS * EACH} prompts of {SHARED + OWN} tokens that share {BEGINNINGS} beginnings in turn, room for {SEATS}"
    yield measured("all answers under fcfs", [slow for _, slow in pairs], "s", what)
    yield measured("all answers under lpm", [fast for fast, _ in pairs], "s", "the same tokens")
    yield measured("lpm's gain", [slow / fast for fast, slow in pairs], "x", "of pairs of runs, one after the other")


def _prompts(prompts: Prompts) -> Answers:
    heads = [prompts.draw(SHARED)() for _ in range(BEGINNINGS)]
    return [head + prompts.draw(OWN)() for _ in range(EACH) for head in heads]


def _timed(llm: LLM, prompts: Answers) -> tuple[Answers, float]:
    begin = time.perf_counter()
    outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=OUT, ignore_eos=True), use_tqdm=False)
    return [o.outputs[0].token_ids for o in outputs], time.perf_counter() - begin
